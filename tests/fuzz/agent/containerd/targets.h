// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the import of containerd's images: its database.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

// The pages from the third on, of 1 KiB; before them stand meta pages that are right, and each gets its number.
void FuzzBolt(std::string_view input);

}  // namespace holdfast::fuzz
