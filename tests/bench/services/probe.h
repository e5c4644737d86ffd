// SPDX-License-Identifier: Apache-2.0
// Real connections through one Service of many: two endpoints are sockets of this process on
// addresses of the loopback interface, the client is another. Since everything is on loopback,
// connect() returns when the answer to the first packet is there. Single-threaded.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::bench {

class Probe {
 public:
  static constexpr uint16_t kPort = 8080;  // of both endpoints

  // Prepares the calling thread's network namespace, which must be a fresh one.
  Probe();

  static IpAddress Endpoint(size_t i);  // 0 or 1

  // Microseconds of connect() each; ends the program when nobody answers.
  std::vector<double> Connect(const IpAddress& address, uint16_t port, size_t n);

  // `change(i)` makes endpoint i the only one of the service, in turns; from the call to the first
  // connection that it has answered. The other one answers until then.
  std::vector<double> ChangeToAnswer(const IpAddress& address, uint16_t port, size_t n,
                                     const std::function<void(size_t)>& change);

 private:
  // One connection and which endpoint has it; -1: none within a second.
  int Try(const IpAddress& address, uint16_t port, double* microseconds);

  std::array<UniqueFd, 2> servers_;
};

}  // namespace holdfast::bench
