// SPDX-License-Identifier: Apache-2.0
// The shape of the Service table: which sets, chains and rules there are for given settings. Their
// number does not depend on how many services there are, but on how many different kinds. Pure.
//
//   prerouting, output   nat -101: jump services; to a node port address: jump node-ports
//   services             K = address . protocol . port
//                          K @restricted            jump source-check (load balancer source ranges)
//                          K @serve-2-…             goto serve-2-…    one per kind, see SetId
//                          from a pod or this node  jump inside       where policies differ
//                          K @outside-serve-2-…     goto outside-serve-2-…
//                          K @refuse reject, K @discard drop, address @cluster-ips reject,
//                          service CIDR drop
//   node-ports           the same with protocol . port
//   serve-2-…            set the masquerade mark, by source; dnat to K . random mod 2 map
//   @endpoints;
//                        the same with mod 1; drop
//   sticky-…             per service with ClientIP affinity: dnat to the client's entry, if it has
//   one record-…             the same: remembers the endpoint that the client got, after NAT
//   postrouting          nat 99: record; @hairpin: masquerade; marked: masquerade, and the mark
//   goes
//
// A packet may be dispatched by the old set and meet the new endpoints. Slots are therefore kept
// without a gap from 0, and whoever drew a slot that is gone gets slot 0, and nothing else ever.
// Sets hold no verdicts: an element with a verdict makes the kernel check the whole table again.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "holdfast/model/service_table.h"
#include "netproxy/nft/ruleset.h"

namespace holdfast::netproxy::nft {

struct SetId {
  enum class Kind : uint8_t {
    kEndpoints,   // map: frontend . slot -> endpoint
    kHairpin,     // endpoints on this node, with themselves
    kClusterIps,  // addresses of cluster IPs
    kAllowed,     // frontend . source & prefix (count): may come in
    kRestricted,  // frontends with source ranges
    kServe,       // frontends with `count` endpoints whose sources in `mask` are masqueraded
    kRefuse,      // frontends without any endpoint
    kDiscard,     // frontends whose policy leaves no endpoint
    kSticky,      // verdict map: frontends with affinity -> their sticky chain
    kRecord,      // verdict map: the same -> their record chain
    kMembers,     // endpoints of one list (count) of a service with affinity
  };
  enum class Domain : uint8_t { kAddress, kNodePort };
  // Frontends that choose from one list; and the two lists of those that choose by source.
  enum class Side : uint8_t { kBoth, kInside, kOutside };

  Kind kind = Kind::kEndpoints;
  Domain domain = Domain::kAddress;
  Side side = Side::kBoth;
  uint8_t mask = 0;    // kServe: model::SourceClass bits
  uint32_t count = 0;  // kServe: endpoints; kAllowed: prefix length
  // kMembers only; `mask` has the bit 1 << m for each masquerade mask m of the frontends.
  uint8_t protocol = 0;
  uint32_t seconds = 0;
  std::string service = {};
  auto operator<=>(const SetId&) const = default;
};

std::string NameOf(const SetId& id);
// Of a service's list (0: cluster, 1: local), for chains and for the two maps that rules fill:
// client -> address, client -> port.
std::string StickyChain(const std::string& service, uint32_t list, uint8_t mask);
std::string RecordChain(const std::string& service, uint32_t list);
Set AffinityMap(const SetId& members, bool of_ports);

struct ServiceLayout {
  Family family = Family::kIp;
  std::string table;
  std::map<SetId, uint32_t> sizes;  // every set that there is
};

// Those that are there without any service.
std::map<SetId, uint32_t> FixedSets();
// Room for `used` elements and as many again.
uint32_t SizeFor(const SetId& id, size_t used);

Set FormOf(const SetId& id, uint32_t size);
// Without elements.
Table BuildServiceTable(const ServiceLayout& layout, const model::ServiceSettings& settings);

}  // namespace holdfast::netproxy::nft
