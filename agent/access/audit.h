// SPDX-License-Identifier: Apache-2.0
// AuditLog: who changed what. One JSON object per line, two lines per change or exec: stage "begin"
// is in the file before anything is done, "end" carries the outcome and the duration. A refusal is
// one line. Thread-safe; writing blocks on the disk, so never call it where nobody may wait.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::access {

struct AuditEntry {
  std::string_view stage = {};  // "begin", "end", "refused"
  uint64_t id = 0;              // the same in begin and end
  uid_t uid = 0;  // of a caller on this machine; one who came over the network has a user instead
  pid_t pid = 0;
  std::string user = {};        // "system:kube-apiserver"
  std::string from = {};        // "192.0.2.1:4711"
  std::string method = {};      // "Exec"
  std::string target = {};      // "default/web/app", "docker.io/library/nginx:latest"
  std::string target_uid = {};  // the pod's, where there is one
  std::string detail = {};      // what: the program's name, never its arguments
  std::string outcome = {};     // end: gRPC status name; refused: the reason
  std::chrono::nanoseconds duration{0};
};

class AuditLog {
 public:
  // Keeps `path` and `path`.1 … up to `max_files` in all. The directory is made (0700) at the first
  // line.
  AuditLog(const std::string& path, uint64_t max_bytes, uint32_t max_files, const Clock& clock);

  uint64_t NextId();
  // A line that cannot be written is counted; the next one that can be carries "dropped".
  void Write(const AuditEntry& entry);
  uint64_t dropped() const;
  const Clock& clock() const { return clock_; }

 private:
  Result<void> Append(const std::string& line);  // mutex_ held
  Result<void> Open();
  Result<void> Rotate();

  const std::string directory_;
  const std::string name_;
  const uint64_t max_bytes_;
  const uint32_t max_files_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  DirFd directory_fd_;
  UniqueFd file_;
  uint64_t size_ = 0;
  uint64_t next_id_ = 0;
  uint64_t dropped_ = 0;           // ever
  uint64_t dropped_reported_ = 0;  // already told in a line
};

inline constexpr uint64_t kAuditFileBytes = 10ull << 20;
inline constexpr uint32_t kAuditFiles = 5;

// What `outcome` is of something that failed: "NOT_FOUND", as gRPC's status has it.
std::string_view OutcomeName(Code code);

// The line without its newline; for Write() and its tests.
std::string FormatAuditLine(const AuditEntry& entry, WallTime time, uint64_t dropped);

}  // namespace holdfast::agent::access
