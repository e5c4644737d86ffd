// SPDX-License-Identifier: Apache-2.0
// What survives execve and is the launcher's, not the container's: signal mask, umask; and the scheduling. What was of those
// who started the launcher it has left behind itself (MakeLaunchContext).
#include <sys/stat.h>

#include <cerrno>
#include <csignal>

#include "holdfast/sys/process.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {

Result<void> DropInheritance(Child&, const model::ProcessPlan& plan) {
  // The dispositions are the default ones: execve resets what is caught, and the launcher ignores
  // nothing.
  sigset_t none;
  ::sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) {
    return Error::FromErrno(errno, "sigprocmask");
  }
  ::umask(plan.umask);
  return {};
}

Result<void> ResetScheduling(Child&, const model::ProcessPlan&) { return sys::ResetScheduling(); }

}  // namespace holdfast::runtime
