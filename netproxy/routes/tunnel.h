// SPDX-License-Identifier: Apache-2.0
// Tunnel: the VXLAN of one family, over which pods of nodes are reached that share no link with this one. What a node
// is in it follows from its address alone, so that nobody has to tell anybody. Source: control-plane.md 8.3.
//
//   10.2.0.0/24 via 198.51.100.2 dev vx-hf4    the route (node_routes.h)
//   198.51.100.2 lladdr 02:68:c6:33:64:02      neighbour: next hop → its end of the tunnel
//   02:68:c6:33:64:02 dst 198.51.100.2         forwarding: that end → where packets are sent
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::netproxy {

inline constexpr uint32_t kTunnelId = 4096;
inline constexpr uint16_t kTunnelPort = 8472;

// The end of the tunnel that the node with this address is, locally administered: 02:68 and an IPv4 address, or 02 and
// 40 bits of an IPv6 address' hash. All nodes of a cluster must agree on it, whatever their version.
sys::MacAddress TunnelEnd(const IpAddress& node);
// What routes to that node name: its IPv4 address, or the link-local address of its end. (The kernel takes no other
// gateway of IPv6 that it would reach by another link.)
IpAddress TunnelNextHop(const IpAddress& node);

struct TunnelEnds {
  IpAddress own;  // this node's, as the others know it
  std::optional<IpAddress>
      pod_side;  // what this node itself is to pods over there; of its own range
  std::vector<IpAddress> peers;
};

// One thread at a time.
class Tunnel {
 public:
  // `name`: of the device. `rtnl` is borrowed.
  Tunnel(sys::Rtnl& rtnl, std::string name) : rtnl_(rtnl), name_(std::move(name)) {}

  // Makes the device and its entries equal to `ends`. Its index. Reads the kernel each time, but for the addresses of
  // this node, which are `local`.
  Result<int> Apply(const TunnelEnds& ends, const std::vector<sys::Address>& local);
  // Success when it is gone already.
  Result<void> Remove();
  const std::string& name() const { return name_; }

 private:
  Result<sys::Link> EnsureDevice(const IpAddress& own, const std::vector<sys::Address>& local);
  Result<uint32_t> Mtu(const IpAddress& own, const std::vector<sys::Address>& local);
  Result<void> SetAddresses(int link, const TunnelEnds& ends,
                            const std::vector<sys::Address>& local);
  Result<void> SetEntries(int link, const std::vector<IpAddress>& peers);

  sys::Rtnl& rtnl_;
  const std::string name_;
};

}  // namespace holdfast::netproxy
