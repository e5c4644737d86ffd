// SPDX-License-Identifier: Apache-2.0
// The files that one run of a container has logged to: "<attempt>.log" and its rotated predecessors
// "<attempt>.log.<time>" (plain or ".gz"), below the container's log directory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/log/unpacked_logs.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent {

struct LogSegment {
  std::string name;
  std::string key;  // what sorts it: the rotation time; "" for the file that is written to now
  ino_t inode = 0;
  LogFile held;  // of the live one (O_PATH): its inode number is not given to another file
  bool live() const { return key.empty(); }
  bool IsOlderThan(const LogSegment& other) const;
};

// Oldest first, the live file last; without it, and files newer than the last one, while the log is
// rotated faster than it can be listed. Empty when there is none. kNotFound: the directory is gone.
Result<std::vector<LogSegment>> ListSegments(int directory, uint32_t attempt);

// The lowest attempt above `attempt` that has a log file.
Result<std::optional<uint32_t>> NextAttempt(int directory, uint32_t attempt);

// Open for reading at offset 0. A compressed one (also one that was compressed since it was listed)
// is unpacked into memory. kNotFound: rotated or removed since it was listed; a new listing tells.
Result<LogFile> OpenSegment(int directory, const LogSegment& segment, UnpackedLogs& unpacked);

}  // namespace holdfast::agent
