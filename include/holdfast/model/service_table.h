// SPDX-License-Identifier: Apache-2.0
// What the node's rules must do for Services, without saying how: one row per port of a Service and
// IP family, with every decision (readiness, topology, policies, conflicts) already taken. Back
// ends get a ServiceChange, compile it and apply it; they never see a Kubernetes object.
//
// Rows are immutable and shared: a back end keeps the pointers of what it applied and compares the
// old with the new row of one key. Nothing here costs more than the rows that changed.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/model/proxy_table.h"

namespace holdfast::model {

struct ServicePortKey {
  std::string name;  // "namespace/name:port", "namespace/name" for a port without a name
  bool v6 = false;
  auto operator<=>(const ServicePortKey&) const = default;
};

// Which list of a row gives the endpoint.
enum class EndpointList : uint8_t {
  kCluster,  // endpoints on any node
  kLocal,    // endpoints on this node only
};

enum class FrontendKind : uint8_t { kClusterIp, kExternalIp, kLoadBalancerIp, kNodePort };

// Where a packet comes from, as bits of a mask. What is a pod of this node is said by LocalSources.
enum SourceClass : uint8_t {
  kFromPod = 1,      // a pod of this node
  kFromNode = 2,     // the node itself: the source is one of its own addresses
  kFromOutside = 4,  // anybody else, pods of other nodes included
};

// One (address, protocol, port) that answers. No two rows of a table claim the same one.
struct Frontend {
  FrontendKind kind = FrontendKind::kClusterIp;
  IpAddress address;  // unspecified for a node port: ServiceSettings::node_port_ranges
  uint16_t port = 0;
  EndpointList inside = EndpointList::kCluster;   // serves kFromPod and kFromNode
  EndpointList outside = EndpointList::kCluster;  // serves kFromOutside
  uint8_t masquerade = 0;  // SourceClass bits whose source address becomes the node's
  // Load balancer addresses only: `restricted` drops every source that is in none of the ranges
  // (which may be empty), before anything else is decided. Sorted.
  bool restricted = false;
  std::vector<Cidr> source_ranges;
  bool operator==(const Frontend&) const = default;
};

struct ServicePortRow {
  ServicePortKey key;
  L4Protocol protocol = L4Protocol::kTcp;
  std::chrono::seconds affinity{0};  // ClientIP affinity ends after this long without a connection
  uint16_t health_check_port = 0;    // to be let in from outside (TCP); the agent answers there
  // Sorted, unique, of the key's family; both always filled, whether a frontend uses them or not.
  // An endpoint of `cluster` that runs on this node is in `local` too, so `local` is where a
  // hairpin (endpoint to itself by way of the service) can happen; it is always masqueraded.
  std::vector<Endpoint> cluster;
  std::vector<Endpoint> local;
  // In neither list, but still serving what it has: flows that are there may go on, none is added.
  std::vector<Endpoint> draining;
  std::vector<Frontend> frontends;  // sorted by (kind, address, port)
  bool operator==(const ServicePortRow&) const = default;
};

using ServicePortRowPtr = std::shared_ptr<const ServicePortRow>;

enum class FrontendAnswer : uint8_t {
  kServe,    // one endpoint of the list, at random
  kRefuse,   // reject: the service has no endpoint anywhere
  kDiscard,  // drop: it has some, but none here, and others shall be tried
};

inline const std::vector<Endpoint>& EndpointsOf(const ServicePortRow& row, EndpointList list) {
  return list == EndpointList::kCluster ? row.cluster : row.local;
}

inline FrontendAnswer AnswerOf(const ServicePortRow& row, EndpointList list) {
  if (row.cluster.empty()) return FrontendAnswer::kRefuse;
  return EndpointsOf(row, list).empty() ? FrontendAnswer::kDiscard : FrontendAnswer::kServe;
}

// How a pod of this node is known by its packets. All empty: nobody is one.
struct LocalSources {
  std::vector<Cidr> cidrs;  // the source address is in one of these; or
  std::string interface;    // the packet came in by this interface,
  bool is_prefix = false;   // or by one whose name begins so
  bool operator==(const LocalSources&) const = default;
};

// The same for all rows. Changes seldom; a change may cost a full rebuild.
struct ServiceSettings {
  LocalSources local;
  // A node port answers on those addresses of the node that are in one of these; 0.0.0.0/0 and ::/0
  // mean all (loopback excepted, see localhost_node_ports). None of a family: none of its
  // addresses.
  std::vector<Cidr> node_port_ranges;
  bool localhost_node_ports = false;  // iptables, IPv4 only: 127.0.0.1 too, with route_localnet
  // Addresses in these that no service has are dropped; ports that no service has on a cluster IP
  // are refused.
  std::vector<Cidr> service_cidrs;
  uint32_t masquerade_mark = 0x4000;  // one bit, cleared again by the rule that masquerades
  bool operator==(const ServiceSettings&) const = default;
};

// From one version of the table to the next. Within one change an address may move from one key to
// another (a service is deleted and the one that waited for its address gets it), so whatever the
// old rows had goes before what the new rows have, in one transaction where the kernel can.
struct ServiceChange {
  uint64_t version = 0;
  // `rows` are all there are: what is not among them goes. The first change, and the one after a
  // failure, are complete.
  bool complete = false;
  std::shared_ptr<const ServiceSettings> settings;  // never null; the same pointer means unchanged
  std::vector<ServicePortRowPtr> rows;              // new or changed, one per key, sorted by key
  std::vector<ServicePortKey> removed;              // sorted; empty when complete
};

}  // namespace holdfast::model
