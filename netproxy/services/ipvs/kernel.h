// SPDX-License-Identifier: Apache-2.0
// The kernel's IPVS over generic netlink: many operations per system call, and what is there read
// back. Bound to the network namespace of the thread that opened it. One thread at a time.
#pragma once

#include <span>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/sys/genl.h"
#include "netproxy/services/ipvs/virtual_server.h"

namespace holdfast::netproxy::ipvs {

struct Timeouts {
  uint32_t tcp = 0;  // seconds
  uint32_t tcp_fin = 0;
  uint32_t udp = 0;
  bool operator==(const Timeouts&) const = default;
};

class IpvsKernel {
 public:
  // kNotFound when the kernel has no IPVS (now).
  static Result<IpvsKernel> Open();

  // The errno of each operation, 0 for success; what one refuses does not keep the others back.
  Result<std::vector<int>> Send(std::span<const Operation> operations);

  // Every virtual server of this namespace, without real servers.
  // The kernel goes on where it stopped by counting those of all namespaces, so that one may be
  // missed when another namespace changes meanwhile: listed until two listings agree.
  Result<Observed> ListVirtuals();
  // Adds the real servers; a virtual server that is gone meanwhile is taken out.
  Result<void> ListReals(Observed& observed);

  Result<Timeouts> GetTimeouts();
  Result<void> SetTimeouts(const Timeouts& timeouts);

 private:
  Result<Observed> ListOnce();
  explicit IpvsKernel(sys::GenlSocket socket) : socket_(std::move(socket)) {}
  sys::GenlSocket socket_;
};

}  // namespace holdfast::netproxy::ipvs
