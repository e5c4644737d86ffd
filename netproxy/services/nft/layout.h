// SPDX-License-Identifier: Apache-2.0
// The shape of the Service table: which sets, chains and rules there are for given settings. Their
// number does not depend on how many services there are, but on how many different kinds. Pure.
//
//   prerouting, output   nat -101: jump services; to a node port address: jump node-ports
//   services             K = address . protocol . port
//                          K @restricted            jump source-check (load balancer source ranges)
//                          K @serve-2-…             goto serve-2-…; one per kind, see sets.h
//                          from a pod or this node  jump inside, where policies differ
//                          K @outside-serve-2-…     goto outside-serve-2-…
//                          K @refuse                reject
//                          K @discard               drop
//                          address @cluster-ips     reject
//                          service CIDR             drop
//   node-ports           the same with protocol . port
//   serve-2-…            set the masquerade mark, by source;
//                        dnat to K . random mod 2 map @endpoints; the same with mod 1; drop
//   sticky-…             per service with ClientIP affinity: dnat to the client's entry, if it has one
//   record-…             the same: remembers the endpoint that the client got, after NAT
//   postrouting          nat 99: record; @hairpin: masquerade; marked: masquerade, and the mark goes
//
// A packet may be dispatched by the old set and meet the new endpoints. Slots are therefore kept
// without a gap from 0, and whoever drew a slot that is gone gets slot 0, and nothing else ever.
// Sets hold no verdicts: an element with a verdict makes the kernel check the whole table again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "holdfast/model/service_table.h"
#include "netproxy/nft/ruleset.h"
#include "netproxy/services/nft/sets.h"

namespace holdfast::netproxy::nft {

struct ServiceLayout {
  Family family = Family::kIp;
  std::string table;
  std::map<SetId, uint32_t> sizes;  // every set that there is
};

// Without elements.
Table BuildServiceTable(const ServiceLayout& layout, const model::ServiceSettings& settings);

}  // namespace holdfast::netproxy::nft
