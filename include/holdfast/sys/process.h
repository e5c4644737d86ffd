// SPDX-License-Identifier: Apache-2.0
// Processes by descriptor: clone3, pidfds, exit statuses, namespaces. Thread-safe: no state.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

struct Cloned {
  pid_t pid = 0;  // 0 in the child
  PidFd pidfd;    // in the parent only
};

// clone3(2) as fork does (own memory, SIGCHLD), with CLONE_* `flags` and CLONE_PIDFD added;
// `cgroup` >= 0 adds CLONE_INTO_CGROUP; with CLONE_PARENT it ends with the caller's own signal.
// glibc's fork handlers do not run: single-threaded callers.
Result<Cloned> Clone(uint64_t flags, int cgroup = -1);

Result<PidFd> OpenPidFd(pid_t pid);
// kNotFound when the process is gone.
Result<void> SendSignal(int pidfd, int signal);

struct ExitStatus {
  int code = 0;    // of exit(2); 0 when a signal ended it
  int signal = 0;  // 0 unless a signal ended it
  // As a shell shows it.
  int ShellCode() const { return signal != 0 ? 128 + signal : code; }
  bool operator==(const ExitStatus&) const = default;
};
ExitStatus FromWaitStatus(int status);             // as wait(2) gives it
ExitStatus FromSignalInfo(const siginfo_t& info);  // as waitid(2) gives it

// Of a child of the caller; nullopt while it runs. kNotFound when it is not a child or was reaped.
// Peek leaves the zombie, Reap takes it.
Result<std::optional<ExitStatus>> PeekExit(int pidfd);
Result<std::optional<ExitStatus>> ReapExit(int pidfd);
// PIDFD_GET_INFO (Linux 6.15): the status of any process, kept while a pidfd that was opened before
// its end is open. nullopt while it runs or is a zombie; kUnsupported on older kernels.
Result<std::optional<ExitStatus>> ExitFromPidFd(int pidfd);

// Whether it has begun to end, or has ended. Of the first process of a pid namespace that is so before the kernel kills
// the others; its pidfd turns readable after their end.
bool IsEnding(int pidfd);

// Of the text of /proc/PID/stat, counted from 1 as in proc(5): a number after the command's name.
Result<uint64_t> StatField(std::string_view stat, int number);
// Field 22 of <proc>/<pid>/stat: with the pid it names a process for ever. `proc` is a procfs.
Result<uint64_t> StartTicks(int proc, pid_t pid);

// The calling thread, and what it starts from now on, runs sooner after a wake-up and for a shorter
// time (a slice of 100 us). Linux 6.12; where that cannot be had nothing changes.
void PreferShortSlices();
// The calling thread runs as soon as it can, whatever the shares and limits of its cgroup and
// whoever else is busy, for at most half of the time (SCHED_DEADLINE, not inherited). Where that is
// not permitted nothing changes. Ends with ResetScheduling(), which then takes CAP_SYS_NICE.
void RunAhead();
// Back to the policy and slice of an ordinary process, and to its niceness where that is permitted.
Result<void> ResetScheduling();

// setns(2). `flags` as there; `fd` is a namespace, or a pidfd with several CLONE_NEW* flags.
Result<void> JoinNamespace(int fd, int flags, const char* what);

// Closes every descriptor in [first, last]; with `unshare` the table becomes private first, and
// only what lies below `first` is copied when `last` is ~0u.
Result<void> CloseRange(unsigned first, unsigned last, bool unshare);

}  // namespace holdfast::sys
