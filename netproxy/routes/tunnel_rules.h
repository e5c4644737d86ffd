// SPDX-License-Identifier: Apache-2.0
// TunnelRules: only nodes of the cluster may send to this node's end of a tunnel. Without them a pod, whose packets reach
// nodes with its own address, could put frames of any source into the networks of all pods. In tables of our own.
// One thread at a time.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/nfnl.h"

namespace holdfast::netproxy {

class TunnelRules {
 public:
  static Result<TunnelRules> Open(std::string table_name);

  // `nodes`: who may send, of both families. No table of a family without one. Reads the kernel each time.
  Result<void> Apply(const std::vector<IpAddress>& nodes);
  Result<void> Remove() { return Apply({}); }

 private:
  TunnelRules(std::string table_name, sys::NfSocket socket)
      : table_name_(std::move(table_name)), socket_(std::move(socket)) {}

  std::string table_name_;
  sys::NfSocket socket_;
};

}  // namespace holdfast::netproxy
