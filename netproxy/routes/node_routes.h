// SPDX-License-Identifier: Apache-2.0
// NodeRoutes: keeps the routes of this node to the pods of the others, in the main table, marked as ours (protocol 72, with
// a gateway). Bound to the network namespace of the thread that opened it. One thread at a time.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/routes/plan.h"

namespace holdfast::netproxy {

class NodeRoutes {
 public:
  static Result<NodeRoutes> Open();

  // Makes the kernel's routes of ours equal to what `peers` need; what of them has no way is returned, in words. A
  // foreign route to the same destination stays and is told. Reads the kernel each time.
  Result<std::vector<std::string>> Apply(const std::vector<NodePeer>& peers,
                                         const std::vector<Cidr>& own);
  Result<void> Remove();

 private:
  explicit NodeRoutes(sys::Rtnl rtnl) : rtnl_(std::move(rtnl)) {}

  sys::Rtnl rtnl_;
};

}  // namespace holdfast::netproxy
