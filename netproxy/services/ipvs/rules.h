// SPDX-License-Identifier: Apache-2.0
// The small nf_tables table beside IPVS: who is masqueraded, refused, dropped, let in by source,
// and which packets get the mark of a virtual server (node ports, and whoever chooses from the
// other list of endpoints). A constant number of chains; sets that grow by themselves. Pure.
//
//   prerouting, output   nat -101: jump services; to an address for node ports: jump node-ports
//   services             K = address . protocol . port
//                          K @restricted jump source-check
//                          K @refuse reject
//                          K @served goto served: by source to from-pod, from-node, from-outside
//                          service addresses: other ports reject; service CIDRs drop
//   from-…               K @…-discard drop; K @masquerade-… mark; mark set K map @marks-…
//   node-ports           the same with protocol . port, loopback excepted
//   postrouting          nat 99: @hairpin masquerade; marked: masquerade, bit cleared
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <string>

#include "holdfast/model/service_table.h"
#include "netproxy/nft/ruleset.h"

namespace holdfast::netproxy::ipvs {

enum class RuleSet : uint8_t {
  // K = address . protocol . port
  kRestricted,
  kRefuse,
  kServed,
  kInsideDiscard,
  kOutsideDiscard,
  kMasqueradePod,
  kMasqueradeNode,
  kMasqueradeOutside,
  kMarksPod,
  kMarksNode,
  kMarksOutside,
  // protocol . port of the node
  kPortRefuse,
  kPortInsideDiscard,
  kPortOutsideDiscard,
  kPortMarksPod,
  kPortMarksNode,
  kPortMarksOutside,
  kHealthChecks,
  kAddresses,  // those that we bound
  kHairpin,    // source . destination
  kAllowed,    // K . source, masked
};

struct RuleSetId {
  RuleSet set = RuleSet::kServed;
  uint8_t prefix = 0;  // of kAllowed
  auto operator<=>(const RuleSetId&) const = default;
};

struct RuleElement {
  RuleSetId set;
  nft::Bytes key;
  nft::Bytes value;  // of kMarks… and kPortMarks…
  auto operator<=>(const RuleElement&) const = default;
  bool operator==(const RuleElement&) const = default;
};

std::string NameOf(RuleSetId id);
nft::Set FormOf(RuleSetId id);

// Chains, and sets without elements. `prefixes` are the lengths of source ranges in use.
nft::Table BuildRules(nft::Family family, const std::string& name,
                      const model::ServiceSettings& settings, const std::set<uint8_t>& prefixes);

}  // namespace holdfast::netproxy::ipvs
