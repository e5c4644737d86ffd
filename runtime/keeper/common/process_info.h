// SPDX-License-Identifier: Apache-2.0
// What the kernel still knows about a process: its start time, and how it ended.
// Thread-safe: no state. /proc must be mounted in the caller's mount namespace.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/exit_report.h"
#include "holdfast/sys/process.h"

namespace holdfast::runtime::keeper {

// Field 22 of /proc/PID/stat; kNotFound when there is no such process. Zombies still have it.
Result<uint64_t> StartTicks(pid_t pid);

Result<pid_t> ParentOf(pid_t pid);  // field 4 of the same

// True while exactly this process exists, as a zombie too.
bool ProcessExists(pid_t pid, uint64_t start_ticks);

// A process between clone and execve still has PF_FORKNOEXEC, as a zombie too: that tells a launch
// which never happened from a program that ended at once.
enum class ProcessStage : uint8_t { kGone, kStarting, kStarted };
ProcessStage StageOf(pid_t pid, uint64_t start_ticks);

// A pidfd for exactly this process; kNotFound when it is gone or the pid is somebody else's now.
Result<PidFd> OpenExactProcess(pid_t pid, uint64_t start_ticks);

// How an already reaped process ended, by PIDFD_GET_INFO (Linux 6.15+); the pidfd must have been
// opened before it was reaped. nullopt when the kernel does not tell.
std::optional<model::ExitReport> ExitFromPidfd(int pidfd, WallTime now);

// Source kWaited.
model::ExitReport ReportFromStatus(const sys::ExitStatus& status, WallTime now);

}  // namespace holdfast::runtime::keeper
