// SPDX-License-Identifier: Apache-2.0
// Steps by which a helper takes its own privileges away before it reads an untrusted byte. What is
// gone cannot be had back. Single-thread; only in the helpers. Source: capabilities(7),
// pivot_root(2), prctl(2).
#pragma once

#include <sys/capability.h>
#include <sys/resource.h>

#include <span>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::runtime::cage {

// Lowered to what was inherited when that is less.
Result<void> Limit(__rlimit_resource resource, rlim_t value, std::string_view name);

// A mount namespace of its own in which the detached mount `tree` is "/" and nothing else exists;
// also the working directory.
Result<void> BecomeRoot(int tree);

// User and group 65534 without supplementary groups; the capabilities `keep` and no other, also not
// in the bounding set.
Result<void> DropPrivileges(std::span<const cap_value_t> keep);

// Dies with its parent, leaves no core, cannot be traced and gains nothing by exec. After the last
// change of user, which clears some of it.
Result<void> Seal();

// The user that DropPrivileges changes to.
inline constexpr uid_t kNobody = 65534;

}  // namespace holdfast::runtime::cage
