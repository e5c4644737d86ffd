// SPDX-License-Identifier: Apache-2.0
#include "netproxy/conntrack/stale_flows.h"

#include <algorithm>
#include <utility>

#include "holdfast/sys/pause_point.h"

namespace holdfast::netproxy {
namespace {

// Above this one dump of all flows costs less than one dump per port.
constexpr size_t kPortsOneByOne = 4;

std::set<model::Endpoint> Serving(const model::ServicePortRow& row) {
  std::set<model::Endpoint> out(row.cluster.begin(), row.cluster.end());
  out.insert(row.local.begin(), row.local.end());
  out.insert(row.draining.begin(), row.draining.end());
  return out;
}

IpAddress AddressOf(const model::Frontend& frontend, bool v6) {
  if (frontend.kind != model::FrontendKind::kNodePort) return frontend.address;
  IpAddress any;
  any.v6 = v6;
  return any;
}

bool HasFrontend(const model::ServicePortRow& row, const model::Frontend& wanted) {
  return std::any_of(row.frontends.begin(), row.frontends.end(), [&](const auto& frontend) {
    return (frontend.kind == model::FrontendKind::kNodePort) ==
               (wanted.kind == model::FrontendKind::kNodePort) &&
           frontend.address == wanted.address && frontend.port == wanted.port;
  });
}

bool AllIn(const model::ServicePortRow& a, const model::ServicePortRow& b) {
  return std::all_of(a.frontends.begin(), a.frontends.end(),
                     [&](const auto& frontend) { return HasFrontend(b, frontend); });
}

// Whether a row's flows outlive their endpoint.
bool HasLastingFlows(const model::ServicePortRow* row) {
  return row != nullptr && row->protocol != model::L4Protocol::kTcp;
}

std::set<FlowPlace> PlacesOf(const model::ServicePortRow& row) {
  std::set<FlowPlace> out;
  for (const model::Frontend& frontend : row.frontends) {
    out.insert({{row.key.v6, row.protocol, frontend.port}, AddressOf(frontend, row.key.v6)});
  }
  return out;
}

// Between the two no flow can have become wrong: no endpoint and no address went, none came that
// packets may already have been sent to in vain.
bool KeepsAllFlows(const model::ServicePortRow& before, const model::ServicePortRow& after) {
  const std::set<model::Endpoint> had = Serving(before);
  const std::set<model::Endpoint> has = Serving(after);
  return before.protocol == after.protocol && before.cluster.empty() == after.cluster.empty() &&
         before.local.empty() == after.local.empty() &&
         std::includes(has.begin(), has.end(), had.begin(), had.end()) && AllIn(before, after) &&
         AllIn(after, before);
}

}  // namespace

void FlowRules::Add(const model::ServicePortRow* before, const model::ServicePortRow* after) {
  if (!HasLastingFlows(before) && !HasLastingFlows(after)) return;
  if (before != nullptr && after != nullptr && KeepsAllFlows(*before, *after)) return;
  if (HasLastingFlows(before)) AddFrontends(*before, /*exists=*/false, Serving(*before));
  if (HasLastingFlows(after)) AddFrontends(*after, /*exists=*/true, Serving(*after));
}

void FlowRules::AddReturned(const model::ServicePortRow& row) {
  AddFrontends(row, /*exists=*/true, Serving(row));
}

void FlowRules::AddFrontends(const model::ServicePortRow& row, bool exists,
                             const std::set<model::Endpoint>& endpoints) {
  for (const FlowPlace& place : PlacesOf(row)) {
    Fate& fate = fates_[place];
    fate.exists |= exists;
    (exists ? fate.may_stay : fate.must_go).insert(endpoints.begin(), endpoints.end());
  }
}

void FlowRules::AddLeftBehind(const FlowPlace& place) { fates_[place].left_behind = true; }

std::set<FlowRules::Port> FlowRules::Ports() const {
  std::set<Port> out;
  for (const auto& [key, fate] : fates_) out.insert(key.first);
  return out;
}

bool FlowRules::IsStale(const Port& port, const sys::Flow& flow,
                        const std::set<IpAddress>& own) const {
  if (port.protocol == model::L4Protocol::kTcp && flow.answered) return false;
  auto it = fates_.find({port, flow.original_destination});
  if (it == fates_.end() && own.contains(flow.original_destination)) {
    IpAddress any;
    any.v6 = port.v6;
    it = fates_.find({port, any});
  }
  if (it == fates_.end()) return false;
  const model::Endpoint endpoint{flow.reply_source, flow.reply_source_port};
  const Fate& fate = it->second;
  if (fate.exists) return !fate.may_stay.contains(endpoint);
  const model::Endpoint untranslated{flow.original_destination, flow.original_destination_port};
  return fate.must_go.contains(endpoint) || (fate.left_behind && endpoint != untranslated);
}

std::set<FlowPlace> FlowPlacesOf(const model::ServicePortRow& row) {
  return HasLastingFlows(&row) ? PlacesOf(row) : std::set<FlowPlace>();
}

Result<StaleFlows> StaleFlows::Open(FlowRecord record) {
  ASSIGN_OR_RETURN(sys::NfSocket socket, sys::NfSocket::Open());
  ASSIGN_OR_RETURN(sys::Rtnl rtnl, sys::Rtnl::Open());
  return StaleFlows(std::move(socket), std::move(rtnl), std::move(record));
}

Result<void> StaleFlows::Before(const model::ServiceChange& change) {
  std::set<FlowPlace> places;
  for (const model::ServicePortRowPtr& row : change.rows) places.merge(FlowPlacesOf(*row));
  return record_.Add(places);
}

Result<size_t> StaleFlows::After(const model::ServiceChange& change) {
  Undo undo;
  auto deleted = Delete(Enter(change, undo));
  if (deleted) {
    HOLDFAST_PAUSE_POINT("conntrack.stale.after");
    // What the record holds too much is looked for once more, and not found.
    (void)Forget();
    return deleted;
  }
  for (auto it = undo.rbegin(); it != undo.rend(); ++it) {
    if (it->second) {
      rows_[it->first] = std::move(it->second);
    } else {
      rows_.erase(it->first);
    }
  }
  return deleted;
}

Result<size_t> StaleFlows::AfterRepair() {
  FlowRules rules;
  for (const auto& [key, row] : rows_) rules.AddReturned(*row);
  return Delete(rules);
}

FlowRules StaleFlows::Enter(const model::ServiceChange& change, Undo& undo) {
  FlowRules rules;
  std::set<model::ServicePortKey> seen;
  const auto forget = [&](const model::ServicePortKey& key) {
    const auto it = rows_.find(key);
    if (it == rows_.end()) return;
    rules.Add(it->second.get(), nullptr);
    may_forget_ |= HasLastingFlows(it->second.get());
    undo.emplace_back(key, std::move(it->second));
    rows_.erase(it);
  };
  for (const model::ServicePortKey& key : change.removed) forget(key);
  for (const model::ServicePortRowPtr& row : change.rows) {
    model::ServicePortRowPtr& known = rows_[row->key];
    rules.Add(known.get(), row.get());
    may_forget_ |=
        HasLastingFlows(known.get()) && (!HasLastingFlows(row.get()) || !AllIn(*known, *row));
    if (change.complete) {
      rules.AddReturned(*row);
      seen.insert(row->key);
    }
    undo.emplace_back(row->key, std::exchange(known, row));
  }
  if (change.complete) {
    std::vector<model::ServicePortKey> gone;
    for (const auto& [key, row] : rows_) {
      if (!seen.contains(key)) gone.push_back(key);
    }
    for (const model::ServicePortKey& key : gone) forget(key);
    const std::set<FlowPlace> present = Places();
    for (const FlowPlace& place : record_.places()) {
      if (!present.contains(place)) rules.AddLeftBehind(place);
    }
  }
  return rules;
}

Result<void> StaleFlows::Forget() {
  if (!may_forget_) return {};
  RETURN_IF_ERROR(record_.Replace(Places()));
  may_forget_ = false;
  return {};
}

std::set<FlowPlace> StaleFlows::Places() const {
  std::set<FlowPlace> places;
  for (const auto& [key, row] : rows_) places.merge(FlowPlacesOf(*row));
  return places;
}

Result<size_t> StaleFlows::Delete(const FlowRules& rules) {
  std::set<FlowRules::Port> ports = rules.Ports();
  if (ports.empty()) return 0;
  HOLDFAST_PAUSE_POINT("conntrack.stale.before");
  std::set<IpAddress> own;
  ASSIGN_OR_RETURN(const std::vector<sys::Address> addresses, rtnl_.ListAddresses());
  for (const sys::Address& address : addresses) own.insert(address.ip);
  if (ports.size() > kPortsOneByOne) {
    std::set<FlowRules::Port> all;
    for (FlowRules::Port port : ports) {
      port.port = 0;
      all.insert(port);
    }
    ports = std::move(all);
  }
  size_t deleted = 0;
  for (const FlowRules::Port& port : ports) {
    const auto stale = [&](const sys::Flow& flow) {
      return rules.IsStale({port.v6, port.protocol, flow.original_destination_port}, flow, own);
    };
    ASSIGN_OR_RETURN(
        const size_t n,
        sys::DeleteFlows(socket_, port.v6, static_cast<uint8_t>(port.protocol), port.port, stale));
    deleted += n;
  }
  return deleted;
}

}  // namespace holdfast::netproxy
