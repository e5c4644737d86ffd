// SPDX-License-Identifier: Apache-2.0
#include "netproxy/routes/tunnel_rules.h"

#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "netproxy/nft/commit.h"
#include "netproxy/nft/observe.h"
#include "netproxy/nft/ruleset.h"
#include "netproxy/nft/transaction.h"
#include "netproxy/routes/tunnel.h"

namespace holdfast::netproxy {
namespace {

using nft::Field;

nft::Table TunnelTable(nft::Family family, const std::string& name,
                       const std::vector<IpAddress>& nodes) {
  const std::string packets = nft::PackProtocol(IPPROTO_UDP) + nft::PackPort(kTunnelPort);
  const nft::Key of_packet = {Field::kL4Protocol, Field::kDestinationPort};
  const nft::Key of_sender = {Field::kSourceAddress, Field::kL4Protocol, Field::kDestinationPort};
  nft::Table table;
  table.family = family;
  table.name = name;
  table.sets = {{.name = "packets", .key = of_packet, .elements = {{packets, ""}}},
                {.name = "nodes", .key = of_sender, .elements = {}}};
  for (const IpAddress& node : nodes) {
    if (node.v6 == (family == nft::Family::kIp6)) {
      table.sets[1].elements.emplace(nft::PackAddress(node) + packets, "");
    }
  }
  table.chains = {
      {"input",
       nft::Hook{nft::Hook::Type::kFilter, nft::Hook::Point::kInput, 0},
       {{{nft::MatchSet{of_sender, "nodes"}, nft::Return{}}, "from nodes of the cluster"},
        {{nft::MatchSet{of_packet, "packets"}, nft::Drop{}}, "the tunnel is for nobody else"}}}};
  return table;
}

}  // namespace

Result<TunnelRules> TunnelRules::Open(std::string table_name) {
  ASSIGN_OR_RETURN(sys::NfSocket socket, sys::NfSocket::Open());
  return TunnelRules(std::move(table_name), std::move(socket));
}

Result<void> TunnelRules::Apply(const std::vector<IpAddress>& nodes) {
  nft::Transaction change;
  for (const nft::Family family : {nft::Family::kIp, nft::Family::kIp6}) {
    const bool v6 = family == nft::Family::kIp6;
    if (std::ranges::find(nodes, v6, &IpAddress::v6) != nodes.end()) {
      const nft::Table wanted = TunnelTable(family, table_name_, nodes);
      ASSIGN_OR_RETURN(const bool same, KernelHas(socket_, wanted));
      if (!same) change.Append(Replace(wanted));
    } else {
      ASSIGN_OR_RETURN(const bool stale, KernelHasTable(socket_, family, table_name_));
      if (stale) change.Append(nft::Remove(family, table_name_));
    }
  }
  return nft::Commit(socket_, change);
}

}  // namespace holdfast::netproxy
