// SPDX-License-Identifier: Apache-2.0
// What the agent's client and the keeper's processes tell each other and write down. Plain values.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/exit_report.h"

namespace holdfast::runtime::keeper {

enum class ProcessKind : uint8_t { kContainer = 0, kExec = 1 };

struct StartRecord {
  std::string id;
  ProcessKind kind = ProcessKind::kContainer;
  uint32_t attempt = 0;
  pid_t pid = 0;             // in the keeper's (the host's) pid namespace
  uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat; pid and start_ticks are an identity
  WallTime started_at;
  // Inodes of the log pipes, 0 without; by them a new holder finds a lost pipe again.
  uint64_t stdout_inode = 0;
  uint64_t stderr_inode = 0;
  std::string tag;  // the caller's own bytes
  bool operator==(const StartRecord&) const = default;
};

struct ExitRecord {
  std::string id;
  pid_t pid = 0;
  uint64_t start_ticks = 0;
  model::ExitReport report;
  bool operator==(const ExitRecord&) const = default;
};

// A launch that did not lead to a running program; nothing is left of it. `step` is the recipe's
// step, or "keeper" when the keeper itself could not be reached or gave up.
struct LaunchFailure {
  std::string step;
  int sys_errno = 0;
  std::string text;
  bool exec_failed = false;  // the recipe was done, execve(2) itself refused
  bool cut_short = false;    // its launcher died with it; to be prepared and sent anew
  Error ToError() const;
};

struct LogRegistration {
  std::string id;
  model::LogSpec spec;
  bool tty = false;
  bool operator==(const LogRegistration&) const = default;
};

struct LogStatus {
  bool drained = false;        // every byte is in the log file and every writer is gone
  uint64_t bytes_in = 0;       // taken out of the pipes so far
  uint64_t bytes_dropped = 0;  // given up because the log could not be written
  uint64_t rotations = 0;
};

}  // namespace holdfast::runtime::keeper
