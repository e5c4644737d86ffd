// SPDX-License-Identifier: Apache-2.0
// ProxyTable: what the node's packet rules must do, without saying how. Each back end compiles it
// to a transaction. Plain rows; equal tables mean equal rules.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/ip_address.h"

namespace holdfast::model {

// IP protocol numbers.
enum class L4Protocol : uint8_t { kTcp = 6, kUdp = 17, kSctp = 132 };

constexpr std::string_view ToString(L4Protocol protocol) {
  switch (protocol) {
    case L4Protocol::kTcp:
      return "tcp";
    case L4Protocol::kUdp:
      return "udp";
    case L4Protocol::kSctp:
      return "sctp";
  }
  return "";
}

struct Endpoint {
  IpAddress ip;
  uint16_t port = 0;
  auto operator<=>(const Endpoint&) const = default;
};

// Packets to (host_ip, protocol, host_port) of the node go to a pod on this node. The endpoint has
// the family of host_ip; an unspecified host_ip (0.0.0.0, ::) is every address of the node.
struct HostPortRow {
  IpAddress host_ip;
  L4Protocol protocol = L4Protocol::kTcp;
  uint16_t host_port = 0;
  Endpoint endpoint;
  auto operator<=>(const HostPortRow&) const = default;
};

struct ProxyTable {
  // Of this node. What leaves one of these for somewhere else gets the node's address.
  std::vector<Cidr> pod_cidrs;
  // Pods and nodes of the cluster: a pod keeps its address on the way there.
  std::vector<Cidr> direct;
  // Packets that enter by an interface of this prefix must come from where they would be sent to.
  std::string pod_interface_prefix;
  std::vector<HostPortRow> host_ports;  // sorted, one per (host_ip, protocol, host_port)
  bool operator==(const ProxyTable&) const = default;
};

}  // namespace holdfast::model
