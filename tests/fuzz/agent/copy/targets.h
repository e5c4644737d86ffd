// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of holdctl cp: whatever tar in a container sends.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzTarCopy(std::string_view input);  // a tar stream; nothing of it leaves the destination

}  // namespace holdfast::fuzz
