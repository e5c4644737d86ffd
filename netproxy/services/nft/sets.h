// SPDX-License-Identifier: Apache-2.0
// The sets of the Service table: one per kind of thing that frontends and endpoints have in common
// (service_layout.h shows who looks into which). Pure.
#pragma once

#include <compare>
#include <cstddef>
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

// Those that are there without any service.
std::map<SetId, uint32_t> FixedSets();
// Room for `used` elements and as many again.
uint32_t SizeFor(const SetId& id, size_t used);

Set FormOf(const SetId& id, uint32_t size);

// What the sets of frontends are looked up by.
Key FrontendKey(SetId::Domain domain);
Key With(Key key, KeyPart part);
Key KeyOf(const SetId& id);
// "snat-node-outside": a set of model::SourceClass bits whose source becomes the node's.
std::string MaskName(uint8_t mask);
// The range of slot numbers that the map of endpoints is described with.
inline constexpr uint32_t kSlots = 65536;
inline constexpr uint8_t kEverybody = model::kFromPod | model::kFromNode | model::kFromOutside;

}  // namespace holdfast::netproxy::nft
