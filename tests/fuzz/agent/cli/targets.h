// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of holdctl beside its copies (../copy).
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzJsonPath(std::string_view input);  // -o jsonpath=

}  // namespace holdfast::fuzz
