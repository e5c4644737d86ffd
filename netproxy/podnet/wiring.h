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
#include "holdfast/sys/sysctl.h"

namespace holdfast::netproxy {

// Marks our routes (`ip route` shows "proto 72"; not taken in /etc/iproute2/rt_protos).
inline constexpr uint8_t kRouteProtocol = 72;
// The node's end of every pod's veth; with the form of the name it tells our interfaces apart.
inline constexpr sys::MacAddress kNodeMac = {0x02, 0x68, 0x66, 0x00, 0x00, 0x01};

// "hf" + 11 hex digits of the uid's hash: at most 15 characters with a prefix of up to 4.
std::string InterfaceName(const std::string& prefix, const PodUid& uid);
// True for a veth that only we can have made.
bool IsOurInterface(const std::string& prefix, const sys::Link& link);

struct PodWiring {
  struct Address {
    IpAddress pod;
    std::optional<IpAddress> node;  // the node's own for talking to the pod
  };
  PodUid uid;
  std::string interface;  // the node's end
  std::string alias;      // for people, shown by `ip link`
  uint32_t mtu = 0;
  std::vector<Address> addresses;  // at most one per family
  // The pod has a hostPort of 127.0.0.0/8: its link takes packets of the node's loopback
  // (route_localnet). What the pod itself sends there is dropped by the rules (rules/compile.h).
  bool loopback_ports = false;
};

// The node's parameters per interface that have files only; opened once, in the node's namespace.
struct NodeSysctls {
  sys::SysctlDir ipv6{"net/ipv6/conf"};
  sys::RenewedProcfs pods;  // where the pods' own are reached
};

// Makes what is missing; a second call changes nothing. An interface of the same name that leads
// to another (dying) namespace is removed first. kConflict when `netns` has a foreign eth0, or a
// foreign interface or route is in the way. What could only not be tuned goes to `warnings`.
Result<void> WirePod(sys::Rtnl& node, NodeSysctls& sysctls, int netns, const PodWiring& pod,
                     std::vector<std::string>& warnings);

}  // namespace holdfast::netproxy
