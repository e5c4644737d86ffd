// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/wanted.h"

#include <algorithm>
#include <utility>

namespace holdfast::netproxy::announce {
namespace {

bool IsWanted(const model::ServicePortRow& row, const model::Frontend& frontend) {
  if (frontend.kind != model::FrontendKind::kExternalIp &&
      frontend.kind != model::FrontendKind::kLoadBalancerIp) {
    return false;
  }
  return frontend.outside == model::EndpointList::kCluster || !row.local.empty();
}

std::vector<IpAddress> AddressesOf(const model::ServicePortRow& row) {
  std::vector<IpAddress> out;
  for (const model::Frontend& frontend : row.frontends) {
    if (IsWanted(row, frontend)) out.push_back(frontend.address);
  }
  return out;
}

}  // namespace

bool WantedAddresses::Release(const std::vector<IpAddress>& addresses) {
  bool changed = false;
  for (const IpAddress& address : addresses) {
    if (--users_[address] != 0) continue;
    users_.erase(address);
    changed = true;
  }
  return changed;
}

// The new ones before the old ones go: what is in both does not change.
bool WantedAddresses::Set(const model::ServicePortKey& key, std::vector<IpAddress> addresses) {
  bool changed = false;
  for (const IpAddress& address : addresses) changed |= ++users_[address] == 1;
  const bool keep = !addresses.empty();
  const std::vector<IpAddress> old = std::exchange(rows_[key], std::move(addresses));
  if (!keep) rows_.erase(key);
  return Release(old) || changed;
}

bool WantedAddresses::Apply(const model::ServiceChange& change, const ServiceApplied& applied) {
  bool changed = false;
  std::map<model::ServicePortKey, std::vector<IpAddress>> old;
  if (change.complete) old = std::exchange(rows_, {});
  for (const model::ServicePortRowPtr& row : change.rows) {
    changed |= Set(row->key, AddressesOf(*row));
  }
  for (const model::ServicePortKey& key : change.removed) changed |= Set(key, {});
  for (const RefusedServicePort& refused : applied.refused) changed |= Set(refused.key, {});
  for (const auto& [key, addresses] : old) changed |= Release(addresses);
  return changed;
}

std::set<std::string> WantedAddresses::UsersOf(const IpAddress& address) const {
  std::set<std::string> out;
  for (const auto& [key, addresses] : rows_) {
    if (std::find(addresses.begin(), addresses.end(), address) != addresses.end()) {
      out.insert(key.name);
    }
  }
  return out;
}

std::set<IpAddress> WantedAddresses::addresses() const {
  std::set<IpAddress> out;
  for (const auto& [address, count] : users_) out.insert(address);
  return out;
}

}  // namespace holdfast::netproxy::announce
