// SPDX-License-Identifier: Apache-2.0
#include "agent/log/log_segments.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/shared_tree.h"

namespace holdfast::agent {
namespace {

constexpr std::string_view kCompressed = ".gz";
constexpr int kMostListings = 8;

// "12.log" -> 12
std::optional<uint32_t> AttemptOf(std::string_view name) {
  if (!name.ends_with(".log")) return std::nullopt;
  name.remove_suffix(4);
  uint32_t attempt = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), attempt);
  if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) return std::nullopt;
  return attempt;
}

struct Listing {
  std::vector<LogSegment> segments;
  bool complete = true;
};

bool ShowsTheSame(const Listing& a, const Listing& b) {
  return a.complete && b.complete &&
         std::ranges::equal(a.segments, b.segments, [](const LogSegment& x, const LogSegment& y) {
           return x.name == y.name && x.inode == y.inode;
         });
}

// Also under its new name when it was compressed since its name was read.
std::optional<LogSegment> Find(int directory, std::string name, size_t prefix) {
  struct stat info{};
  if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (name.size() < prefix || name.ends_with(kCompressed)) return std::nullopt;
    name += kCompressed;
    if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  }
  if (!S_ISREG(info.st_mode)) return std::nullopt;
  std::string key = name.size() < prefix ? "" : name.substr(prefix);
  if (key.ends_with(kCompressed)) key.resize(key.size() - kCompressed.size());
  return LogSegment{
      .name = std::move(name), .key = std::move(key), .inode = info.st_ino, .held = {}};
}

bool IsInode(int file, ino_t inode) {
  struct stat info{};
  return ::fstat(file, &info) == 0 && info.st_ino == inode;
}

// Not complete when the log was rotated meanwhile: then it ends before what may be lacking, which
// is newer than all that was found.
Result<Listing> ListOnce(int directory, uint32_t attempt) {
  const std::string live_name = StrCat(attempt, ".log");
  const std::string prefix = live_name + ".";
  auto live = sys::OpenAt(directory, live_name, O_PATH | O_NOFOLLOW);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(directory, "."));
  Listing listing;
  for (const std::string& name : names) {
    if (name != live_name && (!name.starts_with(prefix) || name.ends_with(".tmp"))) continue;
    if (auto found = Find(directory, name, prefix.size())) {
      listing.segments.push_back(std::move(*found));
    }
  }
  std::vector<LogSegment>& segments = listing.segments;
  // A file that was just compressed is there twice for a moment; the compressed one stays.
  std::ranges::sort(segments, [](const LogSegment& a, const LogSegment& b) {
    return a.key == b.key ? a.name.size() > b.name.size() : a.IsOlderThan(b);
  });
  const auto twins = std::ranges::unique(segments, {}, &LogSegment::key);
  segments.erase(twins.begin(), twins.end());
  if (segments.empty() || !segments.back().live()) return listing;
  if (live && IsInode(live->get(), segments.back().inode)) {
    segments.back().held = std::make_shared<const UniqueFd>(std::move(*live));
  } else {
    segments.pop_back();
    listing.complete = false;
  }
  return listing;
}

}  // namespace

bool LogSegment::IsOlderThan(const LogSegment& other) const {
  if (live() != other.live()) return other.live();
  return key < other.key;
}

Result<std::vector<LogSegment>> ListSegments(int directory, uint32_t attempt) {
  // A directory that is renamed in while it is read may show a file twice or not at all.
  ASSIGN_OR_RETURN(Listing listing, ListOnce(directory, attempt));
  for (int i = 0; i < kMostListings; ++i) {
    ASSIGN_OR_RETURN(Listing again, ListOnce(directory, attempt));
    const bool settled = ShowsTheSame(again, listing);
    listing = std::move(again);
    if (settled) break;
  }
  return std::move(listing.segments);
}

Result<std::optional<uint32_t>> NextAttempt(int directory, uint32_t attempt) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(directory, "."));
  std::optional<uint32_t> next;
  for (const std::string& name : names) {
    const auto found = AttemptOf(name);
    if (found && *found > attempt && (!next || *found < *next)) next = found;
  }
  return next;
}

Result<LogFile> OpenSegment(int directory, const LogSegment& segment, UnpackedLogs& unpacked) {
  std::string name = segment.name;
  auto file = sys::OpenPlainFileAt(directory, name, O_RDONLY);
  // Compressed since it was listed.
  if (!file && file.error().code() == Code::kNotFound && !segment.live() &&
      !name.ends_with(kCompressed)) {
    name += kCompressed;
    file = sys::OpenPlainFileAt(directory, name, O_RDONLY);
  }
  if (!file) return std::move(file.error());
  if (name.ends_with(kCompressed)) return unpacked.Open(std::move(*file), name);
  // Rotated since it was listed: the name is another file's now.
  if (segment.live() && !IsInode(file->get(), segment.inode)) {
    return NotFound(StrCat("log file ", name, ": rotated meanwhile"));
  }
  return std::make_shared<const UniqueFd>(std::move(*file));
}

}  // namespace holdfast::agent
