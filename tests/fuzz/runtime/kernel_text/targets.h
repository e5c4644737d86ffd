// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the texts of /proc and the cgroup file systems, parts of which others name (mounts, interfaces,
// cgroups of other programs).
#pragma once

#include <string_view>

namespace holdfast::fuzz {

// The first byte says which text it is, of mountinfo and /proc/self/cgroup together the first NUL where the second begins.
void FuzzKernelText(std::string_view input);

}  // namespace holdfast::fuzz
