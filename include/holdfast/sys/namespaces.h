// SPDX-License-Identifier: Apache-2.0
// Namespaces of processes. Thread-safe: no state. Source: namespaces(7).
#pragma once

#include <sys/types.h>

#include "holdfast/base/result.h"

namespace holdfast::sys {

// Whether it is in the same one as this process; `name` as below /proc/PID/ns: "mnt". An error when it
// has ended, or may not be asked about.
Result<bool> SharesNamespace(pid_t pid, const char* name);

}  // namespace holdfast::sys
