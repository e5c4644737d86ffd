// SPDX-License-Identifier: Apache-2.0
// From what IPVS has to what it should have, by difference only. Real servers come before others
// go; one that leaves gracefully gets weight 0, keeps its connections, and is deleted when they
// have ended or its time is over. Pure.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "holdfast/base/clock.h"
#include "netproxy/services/ipvs/book.h"
#include "netproxy/services/ipvs/virtual_server.h"

namespace holdfast::netproxy::ipvs {

// What IPVS has, as far as we know.
struct KnownServer {
  VirtualConfig config;
  bool graceful = true;
  struct Real {
    uint32_t weight = 1;
    std::optional<BootTime> since;  // it leaves since then
  };
  std::map<model::Endpoint, Real> reals;
};
using Known = std::map<VirtualKey, KnownServer>;

// In two parts: between them packets are directed to what came and away from what goes.
struct Plan {
  std::vector<Operation> grow;
  std::vector<Operation> shrink;
};

// Brings one virtual server from what is known to `wanted` (null: not wanted). `known` becomes what
// it will be.
void PlanServer(Known& known, const VirtualKey& key, const VirtualServer* wanted, BootTime now,
                Plan& plan);

// Real servers that are leaving and have ended, or are over the limit; then virtual servers that
// nobody wants and that are empty. `observed` are those that have any that leave.
std::vector<Operation> PlanSweep(Known& known, const Book& book, const Observed& observed,
                                 BootTime now, std::chrono::nanoseconds limit);

// Those that have a real server that leaves.
std::vector<VirtualKey> Leaving(const Known& known);

// What was seen, as what is known; a real server without weight leaves.
Known FromObserved(const Observed& observed, const Known& before, BootTime now);

}  // namespace holdfast::netproxy::ipvs
