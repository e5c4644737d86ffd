// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of HTTP/2: all that a server may send.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzH2Session(
    std::string_view input);  // the bytes of a connection, two requests being under way

}  // namespace holdfast::fuzz
