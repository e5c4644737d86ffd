// SPDX-License-Identifier: Apache-2.0
// Whether the kernel has an AppArmor profile. Reads securityfs; thread-safe: no state. Source: apparmor(7).
#pragma once

#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::runtime {

// `list`: lines "NAME (MODE)", as /sys/kernel/security/apparmor/profiles has them. Pure.
bool ListsAppArmorProfile(std::string_view list, std::string_view name);

// kNotFound: the kernel has AppArmor, and no such profile.
Result<void> FindAppArmorProfile(const std::string& name);

}  // namespace holdfast::runtime
