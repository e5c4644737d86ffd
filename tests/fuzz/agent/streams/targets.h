// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the node's HTTPS server and its streams, from a request's first byte on. Each target is cheap, so
// that 10^8 inputs are within reach (tests/fuzz/run --count).
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzSpdy(std::string_view input);             // the bytes of a connection
void FuzzChannelMessages(std::string_view input);  // a message; its first byte chooses the protocol
void FuzzStreamRequest(std::string_view input);    // path and query
// The bytes of a connection after a handshake; the first byte says how they are cut.
void FuzzWebSocket(std::string_view input);
void FuzzHttpRequest(std::string_view input);  // the bytes of a request; the first as above

}  // namespace holdfast::fuzz
