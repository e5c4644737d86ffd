// SPDX-License-Identifier: Apache-2.0
// Profiles of type Localhost.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzSeccompProfile(std::string_view input);

}  // namespace holdfast::fuzz
