// SPDX-License-Identifier: Apache-2.0
#include "netproxy/table/service_tracker.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy {
namespace {

using model::ServiceName;
using model::ServicePortRow;
using model::ServicePortRowPtr;

bool ByKey(const ServicePortRowPtr& a, const ServicePortRowPtr& b) { return a->key < b->key; }

}  // namespace

ServiceTracker::ServiceTracker(TableOptions options) : options_(std::move(options)) {}

void ServiceTracker::SetOptions(TableOptions options) {
  options_ = std::move(options);
  settings_changed_ = true;
  for (auto& [name, entry] : entries_) {
    entry.claims_stale = true;
    dirty_.insert(name);
  }
}

void ServiceTracker::SetService(model::Service service) {
  Entry& entry = entries_[service.name];
  if (entry.service == service) return;
  NoteServiceChange();
  dirty_.insert(service.name);
  entry.service = std::move(service);
  entry.claims_stale = true;
}

void ServiceTracker::RemoveService(const ServiceName& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || !found->second.service) return;
  NoteServiceChange();
  found->second.service.reset();
  found->second.claims_stale = true;
  dirty_.insert(name);
}

void ServiceTracker::SetSlice(model::EndpointSlice slice) {
  const auto key = std::pair(slice.service.object_namespace, slice.name);
  const auto owner = slice_owner_.find(key);
  if (owner != slice_owner_.end() && owner->second != slice.service) {
    RemoveSlice(key.first, key.second);  // its service-name label was changed
  }
  slice_owner_[key] = slice.service;
  model::EndpointSlice& stored = entries_[slice.service].slices[slice.name];
  if (stored == slice) return;
  NoteSliceChange();
  dirty_.insert(slice.service);
  stored = std::move(slice);
}

void ServiceTracker::RemoveSlice(const std::string& slice_namespace,
                                 const std::string& slice_name) {
  const auto owner = slice_owner_.find({slice_namespace, slice_name});
  if (owner == slice_owner_.end()) return;
  NoteSliceChange();
  entries_[owner->second].slices.erase(slice_name);
  dirty_.insert(owner->second);
  slice_owner_.erase(owner);
}

void ServiceTracker::NoteServiceChange() {
  ++changes_.services;
  ++pending_.services;
}

void ServiceTracker::NoteSliceChange() {
  ++changes_.slices;
  ++pending_.slices;
}

std::vector<const model::EndpointSlice*> ServiceTracker::Slices(const Entry& entry) {
  std::vector<const model::EndpointSlice*> slices;
  slices.reserve(entry.slices.size());
  for (const auto& [name, slice] : entry.slices) slices.push_back(&slice);
  return slices;
}

BuiltRows ServiceTracker::Build(const Entry& entry) const {
  if (!entry.service) return {};
  return BuildRows(*entry.service, Slices(entry), options_);
}

std::vector<ServiceTracker::Claim> ServiceTracker::ClaimsOf(const Entry& entry,
                                                            const BuiltRows& built) {
  std::vector<Claim> claims;
  for (const ServicePortRow& row : built.rows) {
    for (const model::Frontend& frontend : row.frontends) {
      claims.emplace_back(KeyOf(frontend, row.protocol),
                          Claimant{RankOf(frontend.kind), entry.service->created, row.key.name});
    }
  }
  std::sort(claims.begin(), claims.end());
  claims.erase(std::unique(claims.begin(), claims.end()), claims.end());
  return claims;
}

// Afterwards the book says of this service what it wants now; whoever won or lost an address by it
// is in `affected`.
void ServiceTracker::UpdateClaims(Entry& entry, std::vector<Claim> wanted,
                                  std::set<ServiceName>& affected) {
  std::vector<Claim> gone, added;
  std::set_difference(entry.claims.begin(), entry.claims.end(), wanted.begin(), wanted.end(),
                      std::back_inserter(gone));
  std::set_difference(wanted.begin(), wanted.end(), entry.claims.begin(), entry.claims.end(),
                      std::back_inserter(added));
  const auto note = [&](const std::vector<std::string>& ports) {
    for (const std::string& port : ports) affected.insert(ServiceOf(port));
  };
  for (const auto& [key, claimant] : gone) note(claims_.Remove(key, claimant));
  for (const auto& [key, claimant] : added) note(claims_.Add(key, claimant));
  entry.claims = std::move(wanted);
}

bool ServiceTracker::Owns(const ServicePortRow& row, const model::Frontend& frontend) const {
  return claims_.Owner(KeyOf(frontend, row.protocol))->port == row.key.name;
}

ServiceUpdate ServiceTracker::Commit() {
  ServiceUpdate update;
  update.change.version = ++version_;
  update.change.settings = options_.settings;
  // All claims first: who keeps an address is known only when everybody has said what he wants.
  Rebuilt rebuilt;
  std::set<ServiceName> affected;
  for (const ServiceName& name : dirty_) {
    Entry& entry = entries_[name];
    BuiltRows& built = rebuilt[name] = Build(entry);
    if (std::exchange(entry.claims_stale, false)) {
      UpdateClaims(entry, ClaimsOf(entry, built), affected);
    }
  }
  for (const ServiceName& name : affected) {
    if (!rebuilt.contains(name)) rebuilt[name] = Build(entries_[name]);
  }
  for (auto& [name, built] : rebuilt) Emit(name, std::move(built), update);
  for (const ServiceName& name : dirty_) {
    const auto found = entries_.find(name);
    if (!found->second.service && found->second.slices.empty()) entries_.erase(found);
  }
  dirty_.clear();
  pending_ = {};
  settings_changed_ = false;
  std::sort(update.change.rows.begin(), update.change.rows.end(), ByKey);
  std::sort(update.change.removed.begin(), update.change.removed.end());
  if (std::exchange(complete_next_, false)) {
    update.change.complete = true;
    update.change.removed.clear();
  }
  return update;
}

// The rows that the service really gets, compared with those it had.
void ServiceTracker::Emit(const ServiceName& name, BuiltRows built, ServiceUpdate& update) {
  Entry& entry = entries_[name];
  std::vector<ServicePortRowPtr> rows;
  for (ServicePortRow& row : built.rows) {
    std::erase_if(row.frontends, [&](const model::Frontend& frontend) {
      if (Owns(row, frontend)) return false;
      const Claimant* owner = claims_.Owner(KeyOf(frontend, row.protocol));
      built.problems.push_back(
          StrCat(ToString(frontend, row.protocol), " belongs to service port ", owner->port));
      return true;
    });
    if (!row.frontends.empty()) {
      rows.push_back(std::make_shared<const ServicePortRow>(std::move(row)));
    }
  }
  std::sort(rows.begin(), rows.end(), ByKey);
  Compare(entry, std::move(rows), update.change);
  if (entry.problems != built.problems) {
    entry.problems = std::move(built.problems);
    update.problems.push_back({name, entry.problems});
  }
  UpdateHealthCheck(name, entry, update);
}

// Rows that stay as they were keep their pointer.
void ServiceTracker::Compare(Entry& entry, std::vector<ServicePortRowPtr> rows,
                             model::ServiceChange& change) {
  auto old = entry.rows.begin();
  for (ServicePortRowPtr& row : rows) {
    while (old != entry.rows.end() && (*old)->key < row->key) {
      change.removed.push_back((*old++)->key);
    }
    const bool known = old != entry.rows.end() && (*old)->key == row->key;
    if (known && **old == *row) {
      row = *old;
    } else {
      change.rows.push_back(row);
    }
    if (known) ++old;
  }
  while (old != entry.rows.end()) change.removed.push_back((*old++)->key);
  entry.rows = std::move(rows);
}

void ServiceTracker::UpdateHealthCheck(const ServiceName& name, const Entry& entry,
                                       ServiceUpdate& update) {
  HealthCheck check;
  std::set<IpAddress> ready;
  for (const ServicePortRowPtr& row : entry.rows) {
    if (row->health_check_port == 0) continue;
    check.port = row->health_check_port;
    const model::ServicePort* port = nullptr;
    for (const model::ServicePort& candidate : entry.service->ports) {
      if (KeyOf(*entry.service, candidate, row->key.v6) == row->key) port = &candidate;
    }
    for (const JudgedEndpoint& e : JudgeEndpoints(Slices(entry), *port, row->key.v6)) {
      if (e.local == EndpointVerdict::kUsed) ready.insert(e.target.ip);
    }
  }
  for (const IpAddress& ip : ready) ++check.local_endpoints[ip.v6 ? 1 : 0];
  const auto found = health_checks_.find(name);
  const bool had = found != health_checks_.end();
  if (check.port == 0) {
    if (had) health_checks_.erase(found);
    update.health_checks_changed |= had;
  } else if (!had || found->second != check) {
    health_checks_[name] = check;
    update.health_checks_changed = true;
  }
}

model::ServiceChange ServiceTracker::Complete() const {
  model::ServiceChange change;
  change.version = version_;
  change.complete = true;
  change.settings = options_.settings;
  for (const auto& [name, entry] : entries_) {
    change.rows.insert(change.rows.end(), entry.rows.begin(), entry.rows.end());
  }
  std::sort(change.rows.begin(), change.rows.end(), ByKey);
  return change;
}

std::vector<ServiceName> ServiceTracker::Names() const {
  std::vector<ServiceName> names;
  for (const auto& [name, entry] : entries_) {
    if (entry.service) names.push_back(name);
  }
  return names;
}

const model::Service* ServiceTracker::Find(const ServiceName& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end() || !found->second.service) return nullptr;
  return &*found->second.service;
}

std::optional<ServiceExplanation> ServiceTracker::Explain(const ServiceName& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end() || !found->second.service) return std::nullopt;
  const Entry& entry = found->second;
  const model::Service& service = *entry.service;
  ServiceExplanation out;
  out.skipped = WhySkipped(service);
  out.problems = entry.problems;
  for (ServicePortRow& row : Build(entry).rows) {
    ExplainedPort port;
    for (const model::ServicePort& candidate : service.ports) {
      if (KeyOf(service, candidate, row.key.v6) == row.key) port.port = candidate;
    }
    port.endpoints = JudgeEndpoints(Slices(entry), port.port, row.key.v6);
    std::erase_if(row.frontends, [&](const model::Frontend& frontend) {
      const Claimant* owner = claims_.Owner(KeyOf(frontend, row.protocol));
      if (owner == nullptr || owner->port == row.key.name) return false;
      port.lost.push_back({frontend, owner->port});
      return true;
    });
    port.row = std::move(row);
    out.ports.push_back(std::move(port));
  }
  return out;
}

}  // namespace holdfast::netproxy
