// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace holdfast::agent::api {

struct ConnectionLimits {
  uint32_t per_uid = 64;
  uint32_t reserve = 8;    // beyond per_uid, while all of those have calls at work
  uint32_t streams = 128;  // calls at once on one connection
  // From accept(2) to the client's first words. Long, since on a starved node client and server
  // take their time: until it has made a call, a connection makes room for any other of its user.
  std::chrono::seconds handshake{30};
  std::chrono::milliseconds rest{5000};  // Rest is called so long after the last connection
};

}  // namespace holdfast::agent::api
