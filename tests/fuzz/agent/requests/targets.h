// SPDX-License-Identifier: Apache-2.0
// What comes with a request of the node's HTTPS API, damaged.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzQuery(std::string_view input);
void FuzzPath(std::string_view input);

}  // namespace holdfast::fuzz
