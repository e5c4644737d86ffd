// SPDX-License-Identifier: Apache-2.0
// Wiring of one pod: a routed veth pair, no bridge.
//
//   node namespace                                   pod namespace
//   <prefix><hash> ───────────── veth ─────────────── eth0  10.88.0.5/32 fd00:88::5/128
//     10.88.0.5/32 dev … src 10.88.0.1                  default via 169.254.1.1 / fe80::1 onlink
//     permanent neighbour 10.88.0.5 -> pod's MAC        permanent neighbour gateway -> node's MAC
//
// Nobody holds the gateway addresses; the permanent neighbours make ARP and neighbour discovery
// unnecessary, so there is nothing to spoof.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/podnet/link_files.h"
#include "netproxy/podnet/pod_veth.h"

namespace holdfast::netproxy {

// Marks our routes (`ip route` shows "proto 72"; not taken in /etc/iproute2/rt_protos).
inline constexpr uint8_t kRouteProtocol = 72;

struct PodWiring {
  struct Address {
    IpAddress pod;
    std::optional<IpAddress> node;  // the node's own for talking to the pod
  };
  PodUid uid;
  std::string prefix;  // of the names of the node's ends
  std::string alias;   // for people, shown by `ip link`
  uint32_t mtu = 0;
  std::vector<Address> addresses;  // at most one per family
  // The pod has a hostPort of 127.0.0.0/8: its link takes packets of the node's loopback
  // (route_localnet). What the pod itself sends there is dropped by the rules (rules/compile.h).
  bool loopback_ports = false;
};

// Makes what is missing, and returns the number of the node's end; a second call changes nothing. A link that lies ready in the namespace becomes the pod's
// (ready_link.h). An interface of the same name that leads
// to another (dying) namespace is removed first. kConflict when `netns` has a foreign eth0, or a
// foreign interface or route is in the way. What could only not be tuned goes to `warnings`.
Result<int> WirePod(sys::Rtnl& node, NodeSysctls& sysctls, int netns, const PodWiring& pod,
                    std::vector<std::string>& warnings);

}  // namespace holdfast::netproxy
