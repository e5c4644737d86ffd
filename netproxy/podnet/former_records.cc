// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/former_records.h"

#include <algorithm>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::netproxy {
namespace {

constexpr size_t kMaxRecordBytes = 1 << 20;
constexpr char kPods[] = "pods";
constexpr char kReleasing[] = "releasing";

Result<PodRecord> ReadRecord(const DirFd& directory, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(directory.get(), name, kMaxRecordBytes));
  return ParseRecord(PodUid(name), text);
}

Result<void> ReadDirectory(const DirFd& network, const char* name, FormerRecords& former) {
  const auto directory = sys::OpenDirAt(network.get(), name);
  if (!directory && directory.error().code() == Code::kNotFound) return {};
  if (!directory) return directory.error();
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(directory->get(), "."));
  for (const std::string& uid : names) {
    if (sys::IsTemporaryName(uid)) continue;
    auto record = ReadRecord(*directory, uid);
    if (!record) {
      former.problems.push_back(StrCat(record.error().message(), ", dropped"));
      continue;
    }
    // A pod that came back while it was released has both; the live one was written last.
    if (std::ranges::find(former.records, record->uid, &PodRecord::uid) != former.records.end()) {
      continue;
    }
    former.written_at = std::max(former.written_at, sys::ChangedAt(directory->get(), uid));
    record->releasing = name == std::string_view(kReleasing);
    former.records.push_back(std::move(*record));
  }
  return {};
}

}  // namespace

FormerRecords ReadFormerRecords(const DirFd& directory) {
  FormerRecords former;
  for (const char* name : {kPods, kReleasing}) {
    if (auto read = ReadDirectory(directory, name, former); !read) {
      former.problems.push_back(read.error().message());
    }
  }
  return former;
}

Result<void> RemoveFormerRecords(const DirFd& directory) {
  for (const char* name : {kPods, kReleasing}) {
    RETURN_IF_ERROR(sys::RemoveTreeAt(directory.get(), name));
  }
  return {};
}

Result<void> WriteFormerRecords(const DirFd& directory, const std::vector<PodRecord>& records) {
  ASSIGN_OR_RETURN(const DirFd pods, sys::MakeDirs(directory.get(), kPods, 0700));
  ASSIGN_OR_RETURN(const DirFd releasing, sys::MakeDirs(directory.get(), kReleasing, 0700));
  for (const PodRecord& record : records) {
    const DirFd& where = record.releasing ? releasing : pods;
    RETURN_IF_ERROR(
        sys::WriteFileAtomicAt(where.get(), record.uid.value, FormatRecord(record), 0600));
  }
  return {};
}

}  // namespace holdfast::netproxy
