// SPDX-License-Identifier: Apache-2.0
// Kernel parameters by their path below /proc/sys ("net/ipv4/ip_forward"). Those of net/ are the
// ones of the calling thread's network namespace. Thread-safe: no state.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::sys {

// Without the trailing newline. kNotFound where this kernel or this namespace has none of that
// name.
Result<std::string> ReadSysctl(const std::string& name);
Result<void> WriteSysctl(const std::string& name, std::string_view value);

}  // namespace holdfast::sys
