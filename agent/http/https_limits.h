// SPDX-License-Identifier: Apache-2.0
// How much of its clients an HTTPS server takes, and for how long.
#pragma once

#include <chrono>
#include <cstddef>

namespace holdfast::agent {

struct HttpsLimits {
  size_t connections = 256;  // those that were given away do not count
  size_t header_bytes = 64u << 10;
  size_t body_bytes = 1u << 20;
  std::chrono::milliseconds handshake{10'000};
  std::chrono::milliseconds idle{90'000};     // without a byte of a next request
  std::chrono::milliseconds request{15'000};  // from its first byte to its last
  std::chrono::milliseconds write{30'000};    // of a piece of an answer
};

}  // namespace holdfast::agent
