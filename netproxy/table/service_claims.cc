// SPDX-License-Identifier: Apache-2.0
#include "netproxy/table/service_claims.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace holdfast::netproxy {
namespace {

std::vector<std::string> Ports(const std::vector<Claimant>& claimants) {
  std::vector<std::string> ports;
  for (const Claimant& claimant : claimants) ports.push_back(claimant.port);
  return ports;
}

}  // namespace

FrontendKey KeyOf(const model::Frontend& frontend, model::L4Protocol protocol) {
  return {frontend.address, frontend.port, protocol};
}

uint8_t RankOf(model::FrontendKind kind) {
  switch (kind) {
    case model::FrontendKind::kClusterIp:
      return 0;
    case model::FrontendKind::kLoadBalancerIp:
      return 1;
    case model::FrontendKind::kExternalIp:
      return 2;
    case model::FrontendKind::kNodePort:
      return 3;  // shares its keys with nobody else
  }
  return 3;
}

size_t ClaimBook::Hash::operator()(const FrontendKey& key) const {
  const std::string_view address(reinterpret_cast<const char*>(key.address.bytes.data()),
                                 key.address.bytes.size());
  const size_t rest = (static_cast<size_t>(key.port) << 16) |
                      (static_cast<size_t>(key.protocol) << 1) | (key.address.v6 ? 1 : 0);
  return std::hash<std::string_view>{}(address) ^ (rest * 0x9e3779b97f4a7c15u);
}

std::vector<std::string> ClaimBook::Add(const FrontendKey& key, const Claimant& claimant) {
  std::vector<Claimant>& list = claims_[key];
  const auto at = std::lower_bound(list.begin(), list.end(), claimant);
  std::vector<std::string> others;
  if (at == list.begin()) others = Ports(list);
  list.insert(at, claimant);
  return others;
}

std::vector<std::string> ClaimBook::Remove(const FrontendKey& key, const Claimant& claimant) {
  const auto found = claims_.find(key);
  if (found == claims_.end()) return {};
  std::vector<Claimant>& list = found->second;
  const auto at = std::lower_bound(list.begin(), list.end(), claimant);
  if (at == list.end() || *at != claimant) return {};
  const bool was_owner = at == list.begin();
  list.erase(at);
  std::vector<std::string> others;
  if (was_owner) others = Ports(list);
  if (list.empty()) claims_.erase(found);
  return others;
}

const Claimant* ClaimBook::Owner(const FrontendKey& key) const {
  const auto found = claims_.find(key);
  return found == claims_.end() ? nullptr : &found->second.front();
}

}  // namespace holdfast::netproxy
