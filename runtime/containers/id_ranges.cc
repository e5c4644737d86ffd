// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/id_ranges.h"

#include <fcntl.h>
#include <simdjson.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::runtime {
namespace {

constexpr char kFile[] = "userns";
constexpr size_t kMostOfIdFile = 64 << 10;

std::string Encode(uint32_t first) {
  const std::string map =
      StrCat("[{\"hostId\":", first, ",\"containerId\":0,\"length\":", kIdsPerPod, "}]");
  return StrCat("{\"uidMappings\":", map, ",\"gidMappings\":", map, "}\n");
}

Result<uint32_t> Decode(const std::string& text) {
  simdjson::dom::parser parser;
  simdjson::dom::element whole;
  if (parser.parse(text).get(whole) != simdjson::SUCCESS) return InvalidArgument("not JSON");
  uint64_t ids[2] = {};
  const char* const maps[2] = {"uidMappings", "gidMappings"};
  for (size_t i = 0; i < 2; ++i) {
    const auto entry = whole[maps[i]].at(0);
    uint64_t inside = 1;
    uint64_t length = 0;
    if (entry["hostId"].get(ids[i]) != simdjson::SUCCESS ||
        entry["containerId"].get(inside) != simdjson::SUCCESS || inside != 0 ||
        entry["length"].get(length) != simdjson::SUCCESS || length != kIdsPerPod) {
      return InvalidArgument(StrCat(maps[i], ": not one range of ", kIdsPerPod, " ids"));
    }
  }
  if (ids[0] != ids[1] || ids[0] < kIdsPerPod || ids[0] > UINT32_MAX - kIdsPerPod) {
    return InvalidArgument("not the same ids for users and groups above 65535");
  }
  return static_cast<uint32_t>(ids[0]);
}

std::vector<model::IdMapEntry> MapOf(uint32_t first) { return {{0, first, kIdsPerPod}}; }

// The first ids outside, of every process with a range of a pod's size.
std::set<uint32_t> RangesOfProcesses() {
  std::set<uint32_t> ranges;
  const auto names = sys::ListDirAt(AT_FDCWD, "/proc");
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto map = sys::ReadFileAt(AT_FDCWD, StrCat("/proc/", name, "/uid_map"), kMostOfIdFile);
    if (!map) continue;  // it has just ended
    std::istringstream lines(*map);
    for (uint64_t inside = 0, outside = 0, count = 0; lines >> inside >> outside >> count;) {
      if (count == kIdsPerPod) ranges.insert(static_cast<uint32_t>(outside));
    }
  }
  return ranges;
}

}  // namespace

Result<uint32_t> IdRanges::Read(int pods, const std::string& uid) const {
  const std::string path = StrCat(uid, "/", kFile);
  ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(pods, path, kMostOfIdFile));
  return WithContext(Decode(text), path);
}

Result<std::vector<std::string>> IdRanges::Adopt() {
  ASSIGN_OR_RETURN(const DirFd pods, sys::OpenDir(pods_dir_));
  ASSIGN_OR_RETURN(const std::vector<std::string> uids, sys::ListDirAt(pods.get(), "."));
  std::vector<std::string> warnings;
  const std::lock_guard lock(mutex_);
  for (const std::string& uid : uids) {
    const auto first = Read(pods.get(), uid);
    if (first) {
      given_[PodUid(uid)] = *first;
    } else if (first.error().sys_errno() != ENOENT && first.error().sys_errno() != ENOTDIR) {
      warnings.push_back(StrCat(pods_dir_, "/", first.error().message()));
      damaged_[PodUid(uid)] = warnings.back();
    }
  }
  if (!damaged_.empty()) seen_ = RangesOfProcesses();
  return warnings;
}

Result<std::vector<model::IdMapEntry>> IdRanges::Ensure(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  if (const auto it = given_.find(uid); it != given_.end()) return MapOf(it->second);
  if (const auto it = damaged_.find(uid); it != damaged_.end()) {
    return Conflict(StrCat("the pod's range of user ids is not known: ", it->second,
                           ": remove the pod, and apply it again"));
  }
  ASSIGN_OR_RETURN(const uint32_t first, NextFree());
  ASSIGN_OR_RETURN(const DirFd dir,
                   sys::MakeDirs(AT_FDCWD, StrCat(pods_dir_, "/", uid.value), 0750));
  RETURN_IF_ERROR(sys::WriteFileAtomicAt(dir.get(), kFile, Encode(first), 0600, true));
  HOLDFAST_PAUSE_POINT("containers.ids_given");
  given_[uid] = first;
  next_ = first + kIdsPerPod;
  return MapOf(first);
}

std::vector<model::IdMapEntry> IdRanges::Find(const PodUid& uid) const {
  const std::lock_guard lock(mutex_);
  const auto it = given_.find(uid);
  return it == given_.end() ? std::vector<model::IdMapEntry>() : MapOf(it->second);
}

Result<void> IdRanges::Free(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  if (!given_.contains(uid) && !damaged_.contains(uid)) return {};
  RETURN_IF_ERROR(sys::RemoveFileAt(AT_FDCWD, StrCat(pods_dir_, "/", uid.value, "/", kFile)));
  given_.erase(uid);
  damaged_.erase(uid);
  if (damaged_.empty()) seen_.clear();
  return {};
}

// Ranges from another IdSpace, given before a change of the configuration, count too.
bool IdRanges::IsTaken(uint32_t first) const {
  const auto overlaps = [first](uint32_t other) {
    return other < first + kIdsPerPod && first < other + kIdsPerPod;
  };
  return std::ranges::any_of(given_, [&](const auto& entry) { return overlaps(entry.second); }) ||
         std::ranges::any_of(seen_, overlaps);
}

Result<uint32_t> IdRanges::NextFree() const {
  const uint32_t begin = next_ < space_.first ? 0 : (next_ - space_.first) / kIdsPerPod;
  for (uint32_t i = 0; i < space_.blocks; ++i) {
    const uint32_t first = space_.first + (begin + i) % space_.blocks * kIdsPerPod;
    if (!IsTaken(first)) return first;
  }
  return Error(Code::kResourceExhausted,
               StrCat("hostUsers: false: all ", space_.blocks, " ranges of user ids are given"));
}

}  // namespace holdfast::runtime
