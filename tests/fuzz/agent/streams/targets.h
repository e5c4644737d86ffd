// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the streams' peers, whoever may exec.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzSpdy(std::string_view input);             // the bytes of a connection
void FuzzChannelMessages(std::string_view input);  // a message; its first byte chooses the protocol
void FuzzStreamRequest(std::string_view input);    // path and query

}  // namespace holdfast::fuzz
