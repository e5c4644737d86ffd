// SPDX-License-Identifier: Apache-2.0
// Messages on a launch's report socket (SOCK_SEQPACKET). The launcher holds one end, the child the
// other; both are O_CLOEXEC, so the child's end closes at exec.
//
//   child                     launcher
//   kUnshared  ------------>            descriptor table copied; waits
//   kSuccessor ------------>            (user namespace) its pid; the child exits, and the
//                                       successor, which has its end of the socket, waits
//              <------------  Go        (not to a child whose process is born late)
//   kWarning*  ------------>            something was degraded
//   kTerminal  ------------>            the pty's master; waits, since a terminal whose masters are
//                                       all closed takes its program along
//              <------------  Go        others have the master too
//   kSandbox   ------------>            its namespaces (SandboxPlan; without an init the child
//                                       then exits)
//   kFailure   ------------>            a step failed; the child exits
//   kExecuting ------------>            the next thing is execve; end-of-file now means success
//
// Where the process is born late (parent.h) that is told instead of kExecuting:
//   kSuccessor ------------>            its pid; the child exits, the process waits
//              <------------  Go        the next thing is execve
// From then on the other end is in the hands of a process that others may trace: nothing but
// kFailure is taken from it.
//
// What the child may have to say behind its seccomp filter (kSuccessor, kFailure) goes by write(2),
// and it waits with read(2): any profile under which programs run allows both.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime {

enum class ReportKind : uint8_t {
  kNothing = 0,  // no message yet
  kEndOfFile,
  kUnshared,
  kSuccessor,
  kWarning,
  kTerminal,
  kSandbox,
  kFailure,
  kExecuting,
};

struct Report {
  ReportKind kind = ReportKind::kNothing;
  std::string text;  // kWarning; kFailure: the error's message; kSandbox: one letter per
                     // descriptor; kSuccessor: its pid
  std::string step;  // kFailure
  bool at_exec = false;
  Code code = Code::kInternal;
  int sys_errno = 0;
  std::vector<UniqueFd> fds;
};

// Child's side. Losing a report is no error of the launch, so these return nothing.
void ReportPlain(int socket, ReportKind kind);
void ReportWarning(int socket, const std::string& text);
void ReportSuccessor(int socket, pid_t pid);
void ReportFailure(int socket, const std::string& step, bool at_exec, const Error& error);
// Fails when the launcher is gone or out of descriptors.
Result<void> ReportDescriptors(int socket, ReportKind kind, const std::string& letters,
                               std::span<const int> fds);
// Blocks; false when the launcher gave up or died.
bool AwaitGo(int socket);

// Launcher's side; `socket` is non-blocking.
Result<void> SendGo(int socket);
// kNothing when no message waits. A malformed message is an error (the child is ours, but it may be
// killed or out of memory at any time).
Result<Report> ReceiveReport(int socket);

}  // namespace holdfast::runtime
