// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of an API server's answers, which anything in between may have written.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

// The first byte chooses among the forms.
void FuzzWatchFrames(std::string_view input);  // the body of a watch
void FuzzReply(std::string_view input);        // the body of a refusal

}  // namespace holdfast::fuzz
