// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/affinity.h"

#include <map>
#include <set>
#include <utility>

#include "netproxy/nft/commit.h"
#include "netproxy/nft/observe.h"

namespace holdfast::netproxy::nft {
namespace {

Result<std::map<Bytes, Bytes>> Read(sys::NfSocket& socket, Family family, const std::string& table,
                                    const std::string& map) {
  std::map<Bytes, Bytes> out;
  auto elements = ObserveElements(socket, family, table, map);
  if (!elements && elements.error().code() == Code::kNotFound) return out;
  if (!elements) return std::move(elements.error());
  for (const Element& element : *elements) out[element.key] = element.value;
  return out;
}

// An entry may end by itself meanwhile, and a deletion of nothing is refused: then one by one.
Result<void> Delete(sys::NfSocket& socket, Family family, const std::string& table, const Set& map,
                    const std::vector<Element>& elements) {
  if (elements.empty()) return {};
  const auto of = [&](std::vector<Element> some) {
    return Transaction{{{family, table, DeleteElements{map, std::move(some)}}}};
  };
  if (Commit(socket, of(elements))) return {};
  for (const Element& element : elements) {
    auto done = Commit(socket, of({element}));
    if (!done && done.error().code() != Code::kNotFound) return done;
  }
  return {};
}

}  // namespace

Result<size_t> PurgeAffinity(sys::NfSocket& socket, Family family, const std::string& table,
                             const SetId& members, const std::vector<model::Endpoint>& endpoints) {
  const Set address_map = AffinityMap(members, false);
  const Set port_map = AffinityMap(members, true);
  ASSIGN_OR_RETURN(const auto addresses, Read(socket, family, table, address_map.name));
  ASSIGN_OR_RETURN(const auto ports, Read(socket, family, table, port_map.name));
  std::set<std::pair<Bytes, Bytes>> good;
  for (const model::Endpoint& endpoint : endpoints) {
    const std::string port = PackPort(endpoint.port).substr(0, 2);  // alone it is not padded
    good.emplace(PackAddress(endpoint.ip), port);
  }
  std::vector<Element> stale_addresses;
  std::vector<Element> stale_ports;
  for (const auto& [client, address] : addresses) {
    const auto port = ports.find(client);
    if (port != ports.end() && good.contains({address, port->second})) continue;
    stale_addresses.push_back({client, address, ""});
    if (port != ports.end()) stale_ports.push_back({client, port->second, ""});
  }
  RETURN_IF_ERROR(Delete(socket, family, table, address_map, stale_addresses));
  RETURN_IF_ERROR(Delete(socket, family, table, port_map, stale_ports));
  return stale_addresses.size();
}

}  // namespace holdfast::netproxy::nft
