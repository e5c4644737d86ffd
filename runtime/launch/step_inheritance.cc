// SPDX-License-Identifier: Apache-2.0
// What survives execve and is the launcher's, not the container's: signal dispositions and mask,
// umask, personality, timer slack; and the scheduling.
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "holdfast/sys/process.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

constexpr int kSignalCount = 64;  // of the kernel, real-time ones included

Result<void> ResetSignals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal <= kSignalCount; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    // glibc refuses its two internal signals; nobody can have changed those through glibc either.
    (void)::sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) {
    return Error::FromErrno(errno, "sigprocmask");
  }
  return {};
}

}  // namespace

Result<void> DropInheritance(Child&, const model::ProcessPlan& plan) {
  RETURN_IF_ERROR(ResetSignals());
  ::umask(plan.umask);
  ::personality(PER_LINUX);
  ::prctl(PR_SET_TIMERSLACK, 0);  // 0: the default
  ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  return {};
}

Result<void> ResetScheduling(Child&, const model::ProcessPlan&) { return sys::ResetScheduling(); }

}  // namespace holdfast::runtime
