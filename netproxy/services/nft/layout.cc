// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/layout.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::nft {
namespace {

using Kind = SetId::Kind;
using Domain = SetId::Domain;
using Side = SetId::Side;

// Before podnet's rules (-100, 100): a service port of the node wins over a host port, and a marked
// packet loses its mark.
constexpr int32_t kServiceDnat = -101;
constexpr int32_t kServiceSnat = 99;

constexpr uint8_t kProtocols[] = {6, 17, 132};  // TCP, UDP, SCTP

// Builds the chains of one table.
class Builder {
 public:
  Builder(const ServiceLayout& layout, const model::ServiceSettings& settings)
      : layout_(layout), settings_(settings), v6_(layout.family == Family::kIp6) {}

  Table Build() {
    Table out{layout_.family, layout_.table, {}, {}};
    for (const auto& [id, size] : layout_.sizes) out.sets.push_back(FormOf(id, size));
    for (const auto& [id, size] : layout_.sizes) {
      if (id.kind == Kind::kServe) AddServe(id);
      if (id.kind != Kind::kMembers) continue;
      out.sets.push_back(AffinityMap(id, false));
      out.sets.push_back(AffinityMap(id, true));
      AddAffinity(id);
    }
    if (Has(Kind::kRecord)) AddRecord();
    if (Has(Kind::kRestricted)) AddSourceCheck();
    AddDispatch(Domain::kAddress, "services");
    AddDispatch(Domain::kNodePort, "node-ports");
    AddBase("prerouting", Hook::Point::kPrerouting);
    AddBase("output", Hook::Point::kOutput);
    AddPostrouting();
    out.chains = std::move(chains_);
    return out;
  }

 private:
  bool Has(Kind kind) const {
    return std::any_of(layout_.sizes.begin(), layout_.sizes.end(),
                       [&](const auto& set) { return set.first.kind == kind; });
  }

  // Calls `each` with what recognises a packet of a pod of this node, one way after another.
  void ForEachPodMatch(const std::function<void(Statement)>& each) const {
    for (const Cidr& cidr : settings_.local.cidrs) {
      if (cidr.network.v6 == v6_) each(MatchCidr{Field::kSourceAddress, cidr, false});
    }
    const std::string& interface = settings_.local.interface;
    if (!interface.empty()) {
      each(MatchInterface{true, interface + (settings_.local.is_prefix ? "*" : ""), false});
    }
  }

  // The chain that marks by source; made once.
  void NeedMark(uint8_t mask) {
    const std::string name = MaskName(mask);
    if (std::any_of(chains_.begin(), chains_.end(),
                    [&](const Chain& chain) { return chain.name == name; })) {
      return;
    }
    Chain chain{name, std::nullopt, {}};
    const auto add = [&](std::optional<Statement> match, bool mark, const char* comment) {
      Rule rule{{}, comment};
      if (match) rule.statements.push_back(std::move(*match));
      if (mark) rule.statements.push_back(SetMark{settings_.masquerade_mark, true});
      if (match) rule.statements.push_back(Return{});
      if (!rule.statements.empty()) chain.rules.push_back(std::move(rule));
    };
    ForEachPodMatch([&](Statement match) {
      add(std::move(match), (mask & model::kFromPod) != 0, "from a pod of this node");
    });
    add(MatchLocalSource{}, (mask & model::kFromNode) != 0, "from this node");
    add(std::nullopt, (mask & model::kFromOutside) != 0, "from elsewhere");
    chains_.push_back(std::move(chain));
  }

  void AppendMark(uint8_t mask, Chain& chain) {
    const std::string why = "the node takes the packet's source over";
    if (mask == kEverybody) {
      chain.rules.push_back({{SetMark{settings_.masquerade_mark, true}}, why});
    } else if (mask != 0) {
      NeedMark(mask);
      chain.rules.push_back({{Jump{MaskName(mask)}}, why});
    }
  }

  void AddAffinity(const SetId& id) {
    const std::string addresses = AffinityMap(id, false).name;
    const std::string ports = AffinityMap(id, true).name;
    for (uint8_t mask = 0; mask <= kEverybody; ++mask) {
      if ((id.mask >> mask & 1) == 0) continue;
      Chain chain{StickyChain(id.service, id.count, mask), std::nullopt, {}};
      AppendMark(mask, chain);
      chain.rules.push_back(
          {{MatchProtocol{id.protocol}, DnatFromTwoMaps{{Field::kSourceAddress}, addresses, ports}},
           "the endpoint that the client had"});
      chains_.push_back(std::move(chain));
    }
    // A packet may be on its way to an endpoint that just went: only members are remembered.
    Chain record{RecordChain(id.service, id.count), std::nullopt, {}};
    const MatchSet member{KeyOf(id), NameOf(id)};
    const std::chrono::seconds timeout(id.seconds);
    record.rules.push_back(
        {{member,
          UpdateMap{{Field::kSourceAddress}, addresses, timeout, Field::kDestinationAddress}},
         "the client's endpoint"});
    record.rules.push_back(
        {{member, UpdateMap{{Field::kSourceAddress}, ports, timeout, Field::kDestinationPort}},
         "and its port"});
    chains_.push_back(std::move(record));
  }

  // Finds the record chain by what the connection was sent to before NAT.
  void AppendRecordSide(Side side, Chain& chain) const {
    for (const auto& [id, size] : layout_.sizes) {
      if (id.kind != Kind::kRecord || id.side != side) continue;
      Key key = {Field::kL4Protocol, Field::kOriginalPort};
      if (id.domain == Domain::kAddress) key.insert(key.begin(), Field::kOriginalDestination);
      for (const auto protocol : kProtocols) {
        chain.rules.push_back(
            {{MatchHasPort{protocol}, VerdictFromMap{key, NameOf(id)}}, NameOf(id)});
      }
    }
  }

  void AddRecord() {
    Chain inside{"record-inside", std::nullopt, {}};
    Chain outside{"record-outside", std::nullopt, {}};
    AppendRecordSide(Side::kInside, inside);
    AppendRecordSide(Side::kOutside, outside);
    Chain chain{"record", std::nullopt, {}};
    AppendRecordSide(Side::kBoth, chain);
    if (!inside.rules.empty() || !outside.rules.empty()) {
      const auto go = [&](Statement match) {
        chain.rules.push_back({{std::move(match), Goto{inside.name}}, "from inside"});
      };
      ForEachPodMatch(go);
      go(MatchLocalSource{});
      chain.rules.push_back({{Goto{outside.name}}, "from elsewhere"});
      chains_.push_back(std::move(inside));
      chains_.push_back(std::move(outside));
    }
    chains_.push_back(std::move(chain));
  }

  void AddServe(const SetId& id) {
    Chain chain{NameOf(id), std::nullopt, {}};
    AppendMark(id.mask, chain);
    const Side side = id.side == Side::kOutside ? Side::kOutside : Side::kBoth;
    const std::string map = NameOf(SetId{Kind::kEndpoints, id.domain, side, 0, 0});
    const auto dnat = [&](uint32_t count) -> Statement {
      return DnatFromMap{With(FrontendKey(id.domain), {Field::kRandom, count}), map};
    };
    chain.rules.push_back({{dnat(id.count)}, "one of the endpoints"});
    if (id.count > 1) chain.rules.push_back({{dnat(1)}, "that one is gone: the first"});
    chain.rules.push_back({{Drop{}}, "the service is gone"});
    chains_.push_back(std::move(chain));
  }

  void AddSourceCheck() {
    Chain chain{"source-check", std::nullopt, {}};
    for (const auto& [id, size] : layout_.sizes) {
      if (id.kind != Kind::kAllowed) continue;
      const auto prefix = static_cast<uint8_t>(id.count);
      Key key = With(FrontendKey(id.domain), id.count == (v6_ ? 128 : 32)
                                                 ? KeyPart(Field::kSourceAddress)
                                                 : KeyPart::Masked(Field::kSourceAddress, prefix));
      chain.rules.push_back(
          {{MatchSet{std::move(key), NameOf(id)}, Return{}}, StrCat("allowed /", id.count)});
    }
    chain.rules.push_back({{Drop{}}, "in none of the load balancer's source ranges"});
    chains_.push_back(std::move(chain));
  }

  // The rules for the sets of one side, in the chain that it is reached by.
  void AppendSide(Domain domain, Side side, Chain& chain) const {
    const SetId sticky{Kind::kSticky, domain, side, 0, 0};
    if (layout_.sizes.contains(sticky)) {
      chain.rules.push_back(
          {{VerdictFromMap{FrontendKey(domain), NameOf(sticky)}}, "clients that came before"});
    }
    for (const auto& [id, size] : layout_.sizes) {
      if (id.domain != domain || id.side != side) continue;
      const std::string name = NameOf(id);
      const MatchSet match{FrontendKey(domain), name};
      if (id.kind == Kind::kServe) {
        chain.rules.push_back({{match, Goto{name}}, name});
      } else if (id.kind == Kind::kRefuse) {
        chain.rules.push_back({{match, Reject{}}, "no endpoint anywhere"});
      } else if (id.kind == Kind::kDiscard) {
        chain.rules.push_back({{match, Drop{}}, "no endpoint here, and policy wants one"});
      }
    }
  }

  void AddDispatch(Domain domain, const std::string& name) {
    Chain inside{name + "-inside", std::nullopt, {}};
    AppendSide(domain, Side::kInside, inside);
    Chain chain{name, std::nullopt, {}};
    if (domain == Domain::kNodePort) {
      chain.rules.push_back(
          {{MatchCidr{Field::kDestinationAddress, Loopback(layout_.family), false}, Return{}},
           "loopback stays loopback"});
    } else if (Has(Kind::kRestricted)) {
      const std::string restricted = NameOf(SetId{Kind::kRestricted, domain, Side::kBoth, 0, 0});
      chain.rules.push_back({{MatchSet{FrontendKey(domain), restricted}, Jump{"source-check"}},
                             "load balancer source ranges"});
    }
    AppendSide(domain, Side::kBoth, chain);
    if (!inside.rules.empty()) {
      const auto jump = [&](Statement match) {
        chain.rules.push_back({{std::move(match), Jump{inside.name}}, "from inside"});
      };
      ForEachPodMatch(jump);
      jump(MatchLocalSource{});
      chains_.push_back(std::move(inside));
    }
    AppendSide(domain, Side::kOutside, chain);
    if (domain == Domain::kAddress) AppendLeftovers(chain);
    chains_.push_back(std::move(chain));
  }

  void AppendLeftovers(Chain& chain) const {
    const SetId ips{Kind::kClusterIps, Domain::kAddress, Side::kBoth, 0, 0};
    chain.rules.push_back({{MatchSet{{Field::kDestinationAddress}, NameOf(ips)}, Reject{}},
                           "a cluster IP without a service at this port"});
    for (const Cidr& cidr : settings_.service_cidrs) {
      if (cidr.network.v6 != v6_) continue;
      chain.rules.push_back({{MatchCidr{Field::kDestinationAddress, cidr, false}, Drop{}},
                             "a cluster IP that no service has"});
    }
  }

  void AddBase(const std::string& name, Hook::Point point) {
    Chain chain{name, Hook{Hook::Type::kNat, point, kServiceDnat}, {}};
    chain.rules.push_back({{Jump{"services"}}, "addresses of services"});
    for (const Cidr& range : settings_.node_port_ranges) {
      if (range.network.v6 != v6_) continue;
      Rule rule{{MatchLocalDestination{}}, "ports of this node"};
      if (range.prefix != 0) {
        rule.statements.push_back(MatchCidr{Field::kDestinationAddress, range, false});
      }
      rule.statements.push_back(Jump{"node-ports"});
      chain.rules.push_back(std::move(rule));
    }
    chains_.push_back(std::move(chain));
  }

  void AddPostrouting() {
    const SetId hairpin{Kind::kHairpin, Domain::kAddress, Side::kBoth, 0, 0};
    Chain chain{"postrouting", Hook{Hook::Type::kNat, Hook::Point::kPostrouting, kServiceSnat}, {}};
    if (Has(Kind::kRecord)) {
      chain.rules.push_back({{MatchCtDnat{false}, Jump{"record"}}, "who got which endpoint"});
    }
    chain.rules.push_back(
        {{MatchCtDnat{false}, MatchSet{KeyOf(hairpin), NameOf(hairpin)}, Masquerade{}},
         "a pod that meets itself must not see its own address"});
    chain.rules.push_back(MasqueradeMarked(settings_.masquerade_mark));
    chains_.push_back(std::move(chain));
  }

  const ServiceLayout& layout_;
  const model::ServiceSettings& settings_;
  bool v6_;
  std::vector<Chain> chains_;
};

}  // namespace

Table BuildServiceTable(const ServiceLayout& layout, const model::ServiceSettings& settings) {
  return Builder(layout, settings).Build();
}

}  // namespace holdfast::netproxy::nft
