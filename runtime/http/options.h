// SPDX-License-Identifier: Apache-2.0
// How a connection is watched over. Value type.
#pragma once

#include <chrono>
#include <cstddef>

namespace holdfast::runtime::http {

struct ConnectionOptions {
  // HTTP/2: after so long without a byte, while something is under way, the peer is asked whether it is there …
  std::chrono::milliseconds ping_after{30'000};
  std::chrono::milliseconds ping_limit{15'000};  // … and has so long to answer.
  size_t most_streams = 80;  // below what servers allow: watches fill connections
  // Unacknowledged bytes for so long end the connection (tcp(7), TCP_USER_TIMEOUT).
  std::chrono::milliseconds unacknowledged_limit{30'000};
};

}  // namespace holdfast::runtime::http
