// SPDX-License-Identifier: Apache-2.0
// NodeRoutes: keeps the routes of this node to the pods of the others, in the main table, marked as ours (protocol 72, with
// a gateway), and the tunnels to nodes that share no link with it. Bound to the network namespace of the thread that
// opened it. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/routes/plan.h"
#include "netproxy/routes/tunnel.h"
#include "netproxy/routes/tunnel_rules.h"

namespace holdfast::netproxy {

struct NodeRoutesOptions {
  bool tunnels = true;
  // What the tunnels' devices ("vx-hf4") and table of rules ("holdfast-tunnel") are called after.
  std::string interface_prefix = "hf";
  std::string table_name = "holdfast";
};

class NodeRoutes {
 public:
  static Result<std::unique_ptr<NodeRoutes>> Open(NodeRoutesOptions options);

  // Makes the kernel's routes of ours equal to what `peers` need; what of them has no way is returned, in words. A
  // foreign route to the same destination stays and is told. Reads the kernel each time.
  Result<std::vector<std::string>> Apply(const std::vector<NodePeer>& peers, const NodePeer& self);
  Result<void> Remove();

 private:
  NodeRoutes(NodeRoutesOptions options, sys::Rtnl rtnl, TunnelRules rules);
  Result<void> ApplyRoutes(const std::vector<sys::Route>& wanted,
                           std::vector<std::string>& problems);
  Result<void> ApplyTunnels(RoutePlan& plan, const NodePeer& self,
                            const std::vector<sys::Address>& local);
  Result<void> ApplyTunnel(Tunnel& tunnel, bool v6, const NodePeer& self,
                           const std::vector<sys::Address>& local, RoutePlan& plan);

  const NodeRoutesOptions options_;
  sys::Rtnl rtnl_;
  TunnelRules rules_;
  Tunnel tunnel4_, tunnel6_;
};

}  // namespace holdfast::netproxy
