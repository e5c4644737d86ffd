// SPDX-License-Identifier: Apache-2.0
// Who has which (address, protocol, port): of several services that want the same one, one keeps
// it. The answer depends on who wants it only, not on who came when. Single-thread.
//
// Before all others comes a cluster IP (nobody takes one away by an external IP), then a load
// balancer's, then an external IP; among equals the service that was created first, then the one
// whose name sorts first.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "holdfast/model/service_table.h"

namespace holdfast::netproxy {

struct FrontendKey {
  IpAddress address;  // unspecified, of the right family, for node ports
  uint16_t port = 0;
  model::L4Protocol protocol = model::L4Protocol::kTcp;
  auto operator<=>(const FrontendKey&) const = default;
};

FrontendKey KeyOf(const model::Frontend& frontend, model::L4Protocol protocol);

struct Claimant {
  uint8_t rank = 0;     // of the frontend's kind
  int64_t created = 0;  // of the service
  std::string port;     // ServicePortKey::name
  auto operator<=>(const Claimant&) const = default;
};

uint8_t RankOf(model::FrontendKind kind);

class ClaimBook {
 public:
  // Both give the other claimants when the owner changed by it, since what they are told changes.
  std::vector<std::string> Add(const FrontendKey& key, const Claimant& claimant);
  std::vector<std::string> Remove(const FrontendKey& key, const Claimant& claimant);

  // Never null for a key that somebody claims.
  const Claimant* Owner(const FrontendKey& key) const;

 private:
  struct Hash {
    size_t operator()(const FrontendKey& key) const;
  };
  // Sorted, the owner first; nearly always one.
  std::unordered_map<FrontendKey, std::vector<Claimant>, Hash> claims_;
};

}  // namespace holdfast::netproxy
