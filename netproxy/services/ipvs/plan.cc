// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/ipvs/plan.h"

#include <algorithm>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::ipvs {
namespace {

using Kind = Operation::Kind;

void GrowReals(KnownServer& server, const VirtualKey& key, const VirtualServer& wanted,
               Plan& plan) {
  for (const model::Endpoint& endpoint : wanted.endpoints) {
    const auto found = server.reals.find(endpoint);
    if (found == server.reals.end()) {
      plan.grow.push_back({Kind::kNewReal, key, {}, endpoint, 1});
      server.reals[endpoint] = {};
    } else if (found->second.weight != 1) {
      plan.grow.push_back({Kind::kSetReal, key, {}, endpoint, 1});
      found->second = {};
    }
  }
}

bool Has(const std::vector<model::Endpoint>& endpoints, const model::Endpoint& endpoint) {
  return std::binary_search(endpoints.begin(), endpoints.end(), endpoint);
}

void ShrinkReals(KnownServer& server, const VirtualKey& key, const VirtualServer* wanted,
                 BootTime now, Plan& plan) {
  for (auto real = server.reals.begin(); real != server.reals.end();) {
    const bool stays = wanted != nullptr && Has(wanted->endpoints, real->first);
    const bool gracefully =
        server.graceful || (wanted != nullptr && Has(wanted->draining, real->first));
    if (stays) {
      ++real;
    } else if (!gracefully) {
      plan.shrink.push_back({Kind::kDeleteReal, key, {}, real->first, 1});
      real = server.reals.erase(real);
    } else {
      if (real->second.weight != 0) {
        plan.shrink.push_back({Kind::kSetReal, key, {}, real->first, 0});
      }
      if (real->second.weight != 0 || !real->second.since) real->second = {0, now};
      ++real;
    }
  }
}

bool Ended(const KnownServer::Real& real, uint32_t connections, BootTime now,
           std::chrono::nanoseconds limit) {
  // What was seen before it lost its weight says nothing.
  if (!real.since || *real.since >= now) return false;
  return connections == 0 || now - *real.since >= limit;
}

}  // namespace

void PlanServer(Known& known, const VirtualKey& key, const VirtualServer* wanted, BootTime now,
                Plan& plan) {
  auto found = known.find(key);
  if (wanted != nullptr) {
    if (found == known.end()) {
      plan.grow.push_back({Kind::kNewVirtual, key, wanted->config, {}, 1});
      found = known.emplace(key, KnownServer{wanted->config, wanted->graceful, {}}).first;
    } else if (found->second.config != wanted->config) {
      plan.grow.push_back({Kind::kSetVirtual, key, wanted->config, {}, 1});
      found->second.config = wanted->config;
    }
    found->second.graceful = wanted->graceful;
    GrowReals(found->second, key, *wanted, plan);
  }
  if (found == known.end()) return;
  ShrinkReals(found->second, key, wanted, now, plan);
  if (wanted == nullptr && found->second.reals.empty()) {
    plan.shrink.push_back({Kind::kDeleteVirtual, key, {}, {}, 1});
    known.erase(found);
  }
}

std::vector<Operation> PlanSweep(Known& known, const Book& book, const Observed& observed,
                                 BootTime now, std::chrono::nanoseconds limit) {
  std::vector<Operation> out;
  for (const auto& [key, seen] : observed) {
    const auto server = known.find(key);
    if (server == known.end()) continue;
    auto& reals = server->second.reals;
    for (auto real = reals.begin(); real != reals.end();) {
      const auto now_seen = seen.reals.find(real->first);
      const bool gone = now_seen == seen.reals.end();
      if (!Ended(real->second, gone ? 0 : now_seen->second.connections, now, limit)) {
        ++real;
        continue;
      }
      if (!gone) out.push_back({Kind::kDeleteReal, key, {}, real->first, 1});
      real = reals.erase(real);
    }
    if (!reals.empty() || book.Find(key) != nullptr) continue;
    out.push_back({Kind::kDeleteVirtual, key, {}, {}, 1});
    known.erase(server);
  }
  return out;
}

std::vector<VirtualKey> Leaving(const Known& known) {
  std::vector<VirtualKey> out;
  for (const auto& [key, server] : known) {
    const bool any = std::any_of(server.reals.begin(), server.reals.end(),
                                 [](const auto& real) { return real.second.since.has_value(); });
    if (any) out.push_back(key);
  }
  return out;
}

Known FromObserved(const Observed& observed, const Known& before, BootTime now) {
  Known out;
  for (const auto& [key, seen] : observed) {
    KnownServer& server = out[key];
    server.config = seen.config;
    server.graceful = key.mark != 0 || key.protocol == 6;
    const auto old = before.find(key);
    if (old != before.end()) server.graceful = old->second.graceful;
    for (const auto& [endpoint, real] : seen.reals) {
      KnownServer::Real& known = server.reals[endpoint];
      known.weight = real.weight;
      if (real.weight != 0) continue;
      known.since = now;
      if (old == before.end()) continue;
      const auto since = old->second.reals.find(endpoint);
      if (since != old->second.reals.end() && since->second.since) {
        known.since = since->second.since;
      }
    }
  }
  return out;
}

std::string ToString(const VirtualKey& key) {
  if (key.mark != 0) return StrCat("-f ", key.mark, key.v6 ? " -6" : "");
  const char* kind = key.protocol == 6 ? "-t " : key.protocol == 17 ? "-u " : "--sctp-service ";
  return StrCat(kind, key.v6 ? "[" : "", key.address.ToString(), key.v6 ? "]:" : ":", key.port);
}

std::string ToString(const VirtualConfig& config) {
  std::string out = StrCat(" -s ", config.scheduler);
  if (config.timeout != 0) out += StrCat(" -p ", config.timeout);
  std::string flags;
  for (uint32_t i = 0; i < 3; ++i) {
    if ((config.flags & 8u << i) != 0) flags += StrCat(flags.empty() ? "" : ",", "flag-", i + 1);
  }
  return flags.empty() ? out : StrCat(out, " -b ", flags);
}

std::string ToString(const Operation& operation) {
  const std::string key = ToString(operation.key);
  const bool v6 = operation.real.ip.v6;
  const std::string real = StrCat(" -r ", v6 ? "[" : "", operation.real.ip.ToString(),
                                  v6 ? "]:" : ":", operation.real.port);
  const std::string weight = StrCat(real, " -m -w ", operation.weight);
  const std::string config = ToString(operation.config);
  switch (operation.kind) {
    case Kind::kNewVirtual:
      return StrCat("-A ", key, config);
    case Kind::kSetVirtual:
      return StrCat("-E ", key, config);
    case Kind::kDeleteVirtual:
      return StrCat("-D ", key);
    case Kind::kNewReal:
      return StrCat("-a ", key, weight);
    case Kind::kSetReal:
      return StrCat("-e ", key, weight);
    case Kind::kDeleteReal:
      return StrCat("-d ", key, real);
  }
  return "";
}

}  // namespace holdfast::netproxy::ipvs
