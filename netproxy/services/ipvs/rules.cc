// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/ipvs/rules.h"

#include <array>
#include <functional>
#include <utility>

#include "holdfast/base/strings.h"
#include "netproxy/services/ipvs/virtual_server.h"

namespace holdfast::netproxy::ipvs {
namespace {

using nft::Chain;
using nft::Family;
using nft::Field;
using nft::Hook;
using nft::Key;
using nft::KeyPart;
using nft::Rule;
using nft::Statement;

constexpr int32_t kBeforeDnat = -101;
constexpr int32_t kBeforeSnat = 99;

constexpr std::array<const char*, 21> kNames = {"restricted",
                                                "refuse",
                                                "served",
                                                "inside-discard",
                                                "outside-discard",
                                                "masquerade-pod",
                                                "masquerade-node",
                                                "masquerade-outside",
                                                "marks-pod",
                                                "marks-node",
                                                "marks-outside",
                                                "port-refuse",
                                                "port-inside-discard",
                                                "port-outside-discard",
                                                "port-marks-pod",
                                                "port-marks-node",
                                                "port-marks-outside",
                                                "health-checks",
                                                "addresses",
                                                "hairpin",
                                                "allowed-"};

bool OfPort(RuleSet set) { return set >= RuleSet::kPortRefuse && set <= RuleSet::kHealthChecks; }
bool OfMarks(RuleSet set) {
  return (set >= RuleSet::kMarksPod && set <= RuleSet::kMarksOutside) ||
         (set >= RuleSet::kPortMarksPod && set <= RuleSet::kPortMarksOutside);
}

Key KeyOf(RuleSetId id) {
  switch (id.set) {
    case RuleSet::kAddresses:
      return {Field::kDestinationAddress};
    case RuleSet::kHairpin:
      return {Field::kSourceAddress, Field::kDestinationAddress};
    default:
      break;
  }
  if (OfPort(id.set)) return {Field::kL4Protocol, Field::kDestinationPort};
  Key key = {Field::kDestinationAddress, Field::kL4Protocol, Field::kDestinationPort};
  if (id.set == RuleSet::kAllowed) key.push_back(Field::kSourceAddress);
  return key;
}

// One of the three kinds of sources, and the sets of its packets.
struct PacketSource {
  const char* name;
  RuleSet discard;
  RuleSet masquerade;
  RuleSet marks;
  RuleSet port_discard;
  RuleSet port_marks;
};
constexpr PacketSource kPod = {"pod",
                               RuleSet::kInsideDiscard,
                               RuleSet::kMasqueradePod,
                               RuleSet::kMarksPod,
                               RuleSet::kPortInsideDiscard,
                               RuleSet::kPortMarksPod};
constexpr PacketSource kNode = {"node",
                                RuleSet::kInsideDiscard,
                                RuleSet::kMasqueradeNode,
                                RuleSet::kMarksNode,
                                RuleSet::kPortInsideDiscard,
                                RuleSet::kPortMarksNode};
constexpr PacketSource kOutside = {"outside",
                                   RuleSet::kOutsideDiscard,
                                   RuleSet::kMasqueradeOutside,
                                   RuleSet::kMarksOutside,
                                   RuleSet::kPortOutsideDiscard,
                                   RuleSet::kPortMarksOutside};

class Builder {
 public:
  Builder(Family family, const model::ServiceSettings& settings, const std::set<uint8_t>& prefixes)
      : family_(family), v6_(family == Family::kIp6), settings_(settings), prefixes_(prefixes) {}

  std::vector<Chain> Build() {
    AddSourceCheck();
    AddServices();
    AddNodePorts();
    for (const PacketSource& source : {kPod, kNode, kOutside}) AddSource(source);
    AddBase("prerouting", Hook::Point::kPrerouting);
    AddBase("output", Hook::Point::kOutput);
    AddPostrouting();
    return std::move(chains_);
  }

 private:
  static nft::MatchSet In(RuleSet set) { return {KeyOf({set}), NameOf({set})}; }

  void AddSourceCheck() {
    Chain chain{"source-check", std::nullopt, {}};
    for (const uint8_t prefix : prefixes_) {
      Key key = KeyOf({RuleSet::kAllowed, prefix});
      if (prefix < (v6_ ? 128 : 32)) key.back() = KeyPart::Masked(Field::kSourceAddress, prefix);
      chain.rules.push_back(
          {{nft::MatchSet{std::move(key), NameOf({RuleSet::kAllowed, prefix})}, nft::Return{}},
           StrCat("allowed /", static_cast<int>(prefix))});
    }
    chain.rules.push_back({{nft::Drop{}}, "in none of the load balancer's source ranges"});
    chains_.push_back(std::move(chain));
  }

  void AddServices() {
    Chain chain{"services", std::nullopt, {}};
    chain.rules.push_back(
        {{In(RuleSet::kRestricted), nft::Jump{"source-check"}}, "load balancer source ranges"});
    chain.rules.push_back({{In(RuleSet::kRefuse), nft::Reject{}}, "no endpoint anywhere"});
    chain.rules.push_back({{In(RuleSet::kServed), nft::Goto{"served"}}, "left to IPVS"});
    chain.rules.push_back({{In(RuleSet::kHealthChecks), nft::Return{}}, "health checks"});
    for (const uint8_t protocol : kProtocols) {
      chain.rules.push_back({{nft::MatchProtocol{protocol}, In(RuleSet::kAddresses), nft::Reject{}},
                             StrCat("a service's address without a service at this port: protocol ",
                                    static_cast<int>(protocol))});
    }
    chain.rules.push_back({{In(RuleSet::kAddresses), nft::Return{}}, "ping is answered"});
    for (const Cidr& cidr : settings_.service_cidrs) {
      if (cidr.network.v6 != v6_) continue;
      chain.rules.push_back({{nft::MatchCidr{Field::kDestinationAddress, cidr, false}, nft::Drop{}},
                             StrCat("a cluster IP that no service has: ", cidr.ToString())});
    }
    chains_.push_back(std::move(chain));
    Chain served{"served", std::nullopt, {}};
    AppendBySource(served, "from-");
    chains_.push_back(std::move(served));
  }

  void AddNodePorts() {
    Chain chain{"node-ports", std::nullopt, {}};
    chain.rules.push_back(
        {{nft::MatchCidr{Field::kDestinationAddress, nft::Loopback(family_), false}, nft::Return{}},
         "loopback stays loopback"});
    chain.rules.push_back({{In(RuleSet::kPortRefuse), nft::Reject{}}, "no endpoint anywhere"});
    AppendBySource(chain, "ports-from-");
    chains_.push_back(std::move(chain));
  }

  void AppendBySource(Chain& chain, const std::string& prefix) const {
    size_t n = 0;
    const auto add = [&](Statement match, const char* source) {
      chain.rules.push_back(
          {{std::move(match), nft::Goto{prefix + source}}, StrCat("from a ", source, " ", ++n)});
    };
    for (const Cidr& cidr : settings_.local.cidrs) {
      if (cidr.network.v6 == v6_) add(nft::MatchCidr{Field::kSourceAddress, cidr, false}, "pod");
    }
    const std::string& interface = settings_.local.interface;
    if (!interface.empty()) {
      add(nft::MatchInterface{true, interface + (settings_.local.is_prefix ? "*" : ""), false},
          "pod");
    }
    add(nft::MatchLocalSource{}, "node");
    chain.rules.push_back({{nft::Goto{prefix + "outside"}}, "from elsewhere"});
  }

  void AddSource(const PacketSource& source) {
    const std::string why = "no endpoint here, and policy wants one";
    const std::string marked = "the virtual server that is known by a mark";
    Chain served{StrCat("from-", source.name), std::nullopt, {}};
    served.rules.push_back({{In(source.discard), nft::Drop{}}, why});
    served.rules.push_back({{In(source.masquerade), nft::SetMark{settings_.masquerade_mark, true}},
                            "the node takes the packet's source over"});
    served.rules.push_back(
        {{nft::SetMarkFromMap{KeyOf({source.marks}), NameOf({source.marks})}}, marked});
    chains_.push_back(std::move(served));
    Chain ports{StrCat("ports-from-", source.name), std::nullopt, {}};
    ports.rules.push_back({{In(source.port_discard), nft::Drop{}}, why});
    ports.rules.push_back(
        {{nft::SetMarkFromMap{KeyOf({source.port_marks}), NameOf({source.port_marks})}}, marked});
    chains_.push_back(std::move(ports));
  }

  void AddBase(const std::string& name, Hook::Point point) {
    Chain chain{name, Hook{Hook::Type::kNat, point, kBeforeDnat}, {}};
    chain.rules.push_back({{nft::Jump{"services"}}, "addresses of services"});
    // Not for service addresses, which are the node's too: `addresses` are dealt with by now, but
    // for what is no protocol with ports.
    for (const Cidr& range : settings_.node_port_ranges) {
      if (range.network.v6 != v6_) continue;
      Rule rule{{nft::MatchLocalDestination{}}, StrCat("ports of this node: ", range.ToString())};
      if (range.prefix != 0) {
        rule.statements.push_back(nft::MatchCidr{Field::kDestinationAddress, range, false});
      }
      rule.statements.push_back(nft::Jump{"node-ports"});
      chain.rules.push_back(std::move(rule));
    }
    chains_.push_back(std::move(chain));
  }

  void AddPostrouting() {
    Chain chain{"postrouting", Hook{Hook::Type::kNat, Hook::Point::kPostrouting, kBeforeSnat}, {}};
    chain.rules.push_back({{In(RuleSet::kHairpin), nft::Masquerade{}},
                           "a pod that meets itself must not see its own address"});
    chain.rules.push_back(nft::MasqueradeMarked(settings_.masquerade_mark));
    chains_.push_back(std::move(chain));
  }

  Family family_;
  bool v6_;
  const model::ServiceSettings& settings_;
  const std::set<uint8_t>& prefixes_;
  std::vector<Chain> chains_;
};

}  // namespace

std::string NameOf(RuleSetId id) {
  const std::string name = kNames[static_cast<size_t>(id.set)];
  return id.set == RuleSet::kAllowed ? StrCat(name, static_cast<int>(id.prefix)) : name;
}

nft::Set FormOf(RuleSetId id) {
  nft::Set set;
  set.name = NameOf(id);
  set.key = KeyOf(id);
  if (OfMarks(id.set)) set.to = nft::MapTo::kMark;
  return set;
}

nft::Table BuildRules(nft::Family family, const std::string& name,
                      const model::ServiceSettings& settings, const std::set<uint8_t>& prefixes) {
  nft::Table table{family, name, {}, {}};
  for (size_t i = 0; i < static_cast<size_t>(RuleSet::kAllowed); ++i) {
    table.sets.push_back(FormOf({static_cast<RuleSet>(i)}));
  }
  for (const uint8_t prefix : prefixes) table.sets.push_back(FormOf({RuleSet::kAllowed, prefix}));
  table.chains = Builder(family, settings, prefixes).Build();
  return table;
}

}  // namespace holdfast::netproxy::ipvs
