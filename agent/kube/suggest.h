// SPDX-License-Identifier: Apache-2.0
// Suggestions for names that were mistyped. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::agent::kube {

// ` (did you mean "image"?)` for the name that is nearest to what was written, if any is near.
std::string DidYouMean(std::string_view written, const std::vector<std::string_view>& names);

}  // namespace holdfast::agent::kube
