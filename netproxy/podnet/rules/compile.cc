// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/rules/compile.h"

#include <algorithm>
#include <utility>

namespace holdfast::netproxy::nft {
namespace {

// linux/netfilter_ipv4.h, NF_IP_PRI_*
constexpr int32_t kRaw = -300;  // before conntrack: a spoofed packet leaves no trace
constexpr int32_t kDnat = -100;
constexpr int32_t kFilter = 0;
constexpr int32_t kSnat = 100;

const Key kByPort = {Field::kL4Protocol, Field::kDestinationPort};
const Key kByAddressAndPort = {Field::kDestinationAddress, Field::kL4Protocol,
                               Field::kDestinationPort};
const Key kByEnds = {Field::kSourceAddress, Field::kDestinationAddress};

Cidr Literal(bool v6, uint8_t first, uint8_t last, uint8_t prefix) {
  Cidr c;
  c.network.v6 = v6;
  c.network.bytes[0] = first;
  if (v6) c.network.bytes[15] = last;
  c.prefix = prefix;
  return c;
}
Cidr Loopback(bool v6) { return v6 ? Literal(true, 0, 1, 128) : Literal(false, 127, 0, 8); }
Cidr Multicast(bool v6) { return v6 ? Literal(true, 0xff, 0, 8) : Literal(false, 224, 0, 4); }

std::vector<Set> Sets(const model::ProxyTable& table, bool v6) {
  Set by_address{"hostip_ports", kByAddressAndPort, MapTo::kEndpoint, {}};
  Set by_port{"host_ports", kByPort, MapTo::kEndpoint, {}};
  Set hairpin{"hairpin", kByEnds, MapTo::kNothing, {}};
  for (const model::HostPortRow& row : table.host_ports) {
    if (row.endpoint.ip.v6 != v6) continue;
    const std::string pod = PackAddress(row.endpoint.ip);
    const std::string port =
        PackProtocol(static_cast<uint8_t>(row.protocol)) + PackPort(row.host_port);
    const std::string endpoint = pod + PackPort(row.endpoint.port);
    if (row.host_ip.IsUnspecified()) {
      by_port.elements.insert_or_assign(port, endpoint);
    } else {
      by_address.elements.insert_or_assign(PackAddress(row.host_ip) + port, endpoint);
    }
    hairpin.elements.insert_or_assign(pod + pod, "");
  }
  return {std::move(by_address), std::move(by_port), std::move(hairpin)};
}

// Before conntrack an answer to a masqueraded packet still has the node's address: what says
// 127.0.0.0/8 here was written by the pod.
Chain SpoofedChain(const std::string& prefix, bool v6) {
  const MatchInterface from_pods{true, prefix + "*", false};
  Chain chain{
      "spoofed",
      Hook{Hook::Type::kFilter, Hook::Point::kPrerouting, kRaw},
      {{{from_pods, MatchSpoofedSource{}, Drop{}}, "a pod sends from its own address only"}}};
  if (!v6) {
    chain.rules.push_back(
        {{from_pods, MatchCidr{Field::kDestinationAddress, Loopback(false), false}, Drop{}},
         "a pod does not send to the node's loopback"});
  }
  return chain;
}

Chain LoopbackChain() {
  return {"loopback",
          Hook{Hook::Type::kFilter, Hook::Point::kInput, kFilter},
          {{{MatchInterface{true, "lo", true},
             MatchCidr{Field::kDestinationAddress, Loopback(false), false},
             MatchCidr{Field::kSourceAddress, Loopback(false), true}, MatchCtNew{},
             MatchCtDnat{true}, Drop{}},
            "loopback addresses are not for the network"}}};
}

Chain HostPortsChain() {
  return {"hostports",
          std::nullopt,
          {{{DnatFromMap{kByAddressAndPort, "hostip_ports"}}, "host port of one address"},
           {{DnatFromMap{kByPort, "host_ports"}}, "host port of every address"}}};
}

// 127.0.0.0/8 is for programs of the node alone: routing, which would drop such a packet from elsewhere,
// comes after this chain.
Chain PreroutingChain(bool v6) {
  Rule rule{{MatchLocalDestination{}, Jump{"hostports"}}, "to an address of this node"};
  if (!v6) {
    rule.statements.insert(rule.statements.begin(),
                           MatchCidr{Field::kDestinationAddress, Loopback(false), true});
    rule.comment += ", except loopback";
  }
  return {"prerouting", Hook{Hook::Type::kNat, Hook::Point::kPrerouting, kDnat}, {std::move(rule)}};
}

// A port of every address leaves loopback alone: what listens there stays in reach.
Chain OutputChain(bool v6) {
  Chain chain{"output",
              Hook{Hook::Type::kNat, Hook::Point::kOutput, kDnat},
              {{{MatchCidr{Field::kDestinationAddress, Loopback(v6), true}, MatchLocalDestination{},
                 Jump{"hostports"}},
                "from this node to an address of it, except loopback"}}};
  if (!v6) {
    chain.rules.push_back({{MatchCidr{Field::kDestinationAddress, Loopback(false), false},
                            DnatFromMap{kByAddressAndPort, "hostip_ports"}},
                           "host port of a loopback address"});
  }
  return chain;
}

Chain PostroutingChain(const model::ProxyTable& table, bool v6) {
  Chain chain{"postrouting", Hook{Hook::Type::kNat, Hook::Point::kPostrouting, kSnat}, {}};
  chain.rules.push_back({{MatchCtDnat{false}, MatchSet{kByEnds, "hairpin"}, Masquerade{}},
                         "a pod that meets itself must not see its own address"});
  if (!v6) {
    chain.rules.push_back({{MatchInterface{false, table.pod_interface_prefix + "*", false},
                            MatchCidr{Field::kSourceAddress, Loopback(false), false},
                            MatchCtDnat{false}, Masquerade{}},
                           "from the node's loopback: a pod could not answer"});
  }
  for (const Cidr& pods : table.pod_cidrs) {
    if (pods.network.v6 != v6) continue;
    chain.rules.push_back(
        {{MatchCidr{Field::kSourceAddress, pods, false}, Jump{"outbound"}}, "from pods"});
  }
  return chain;
}

Chain OutboundChain(const model::ProxyTable& table, bool v6) {
  Chain chain{"outbound", std::nullopt, {}};
  const auto keep = [&](const Cidr& range, const char* why) {
    if (range.network.v6 != v6) return;
    chain.rules.push_back({{MatchCidr{Field::kDestinationAddress, range, false}, Return{}}, why});
  };
  for (const Cidr& range : table.pod_cidrs) keep(range, "to pods of this node");
  keep(Multicast(v6), "multicast");
  for (const Cidr& range : table.direct) keep(range, "within the cluster");
  chain.rules.push_back({{Masquerade{}}, "pods to the outside: with the address of the node"});
  return chain;
}

Table BuildFamily(const model::ProxyTable& table, bool v6, const std::string& name) {
  Table out;
  out.family = v6 ? Family::kIp6 : Family::kIp;
  out.name = name;
  out.sets = Sets(table, v6);
  out.chains.push_back(SpoofedChain(table.pod_interface_prefix, v6));
  if (!v6) out.chains.push_back(LoopbackChain());
  out.chains.push_back(HostPortsChain());
  out.chains.push_back(PreroutingChain(v6));
  out.chains.push_back(OutputChain(v6));
  out.chains.push_back(OutboundChain(table, v6));
  out.chains.push_back(PostroutingChain(table, v6));
  return out;
}

}  // namespace

std::vector<Table> Build(const model::ProxyTable& table, const std::string& table_name) {
  std::vector<Table> out;
  for (const bool v6 : {false, true}) {
    const bool any = std::ranges::any_of(
        table.pod_cidrs, [v6](const Cidr& range) { return range.network.v6 == v6; });
    if (any) out.push_back(BuildFamily(table, v6, table_name));
  }
  return out;
}

Transaction Compile(const model::ProxyTable& next, const model::ProxyTable* previous,
                    const std::string& table_name) {
  std::vector<Table> before;
  if (previous != nullptr) before = Build(*previous, table_name);
  Transaction out;
  for (const Table& table : Build(next, table_name)) {
    const auto old = std::find_if(before.begin(), before.end(),
                                  [&](const Table& t) { return t.family == table.family; });
    out.Append(old == before.end() ? Replace(table) : Diff(*old, table));
    if (old != before.end()) before.erase(old);
  }
  for (const Table& gone : before) out.Append(Remove(gone.family, gone.name));
  return out;
}

}  // namespace holdfast::netproxy::nft
