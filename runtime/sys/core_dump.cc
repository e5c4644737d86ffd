// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/core_dump.h"

#include <sys/prctl.h>

#include <cerrno>

namespace holdfast::sys {

Result<void> HideMemory() {
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return Error::FromErrno(errno, "prctl PR_SET_DUMPABLE");
  return {};
}

Result<rlimit> PreventCoreDumps() {
  RETURN_IF_ERROR(HideMemory());
  rlimit before{};
  if (::getrlimit(RLIMIT_CORE, &before) != 0) return Error::FromErrno(errno, "getrlimit core");
  const rlimit none{0, before.rlim_max};
  if (::setrlimit(RLIMIT_CORE, &none) != 0) return Error::FromErrno(errno, "setrlimit core");
  return before;
}

}  // namespace holdfast::sys
