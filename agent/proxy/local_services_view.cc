// SPDX-License-Identifier: Apache-2.0
// What LocalServices shows to the APIs.
#include <utility>

#include "agent/proxy/local_endpoints.h"
#include "agent/proxy/local_services.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

using model::ServiceName;

void AddAnnounced(const std::function<std::vector<std::string>(const IpAddress&)>& announced,
                  ExplainedService& out) {
  for (const netproxy::ExplainedPort& port : out.table.ports) {
    for (const model::Frontend& frontend : port.row.frontends) {
      out.announced[frontend.address] = announced(frontend.address);
    }
  }
}

}  // namespace

ServicePtr LocalServices::Find(const ServiceName& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = services_.find(name);
  return found == services_.end() ? nullptr : found->second.service;
}

std::vector<ServicePtr> LocalServices::ListServices() const {
  const std::lock_guard lock(mutex_);
  std::vector<ServicePtr> out;
  for (const auto& [name, known] : services_) out.push_back(known.service);
  return out;
}

std::vector<SlicePtr> LocalServices::ListSlices() const {
  const std::lock_guard lock(mutex_);
  std::map<PodKey, SlicePtr> all = written_slices_;
  for (const auto& [name, known] : services_) {
    for (const auto& [slice_name, slice] : known.slices) {
      all[{name.object_namespace, slice_name}] = slice;
    }
  }
  std::vector<SlicePtr> out;
  for (auto& [key, slice] : all) out.push_back(std::move(slice));
  return out;
}

Result<ExplainedService> LocalServices::Explain(const ServiceName& name) const {
  auto table = driver_.Explain(name);
  if (!table) return NotFound(StrCat("services \"", name.name, "\" not found"));
  ExplainedService out;
  out.table = std::move(*table);
  out.local = options_.driver.table.settings->local;
  for (const SlicePtr& slice : ListSlices()) {
    const auto& labels = slice->metadata().labels();
    const auto label = labels.find(kServiceNameLabel);
    if (slice->metadata().namespace_() == name.object_namespace && label != labels.end() &&
        label->second == name.name) {
      out.slices.push_back(slice);
    }
  }
  if (options_.announced) AddAnnounced(options_.announced, out);
  const std::lock_guard lock(mutex_);
  out.node_addresses = node_addresses_;
  if (const auto found = services_.find(name); found != services_.end()) {
    for (const ServiceTrouble& trouble : found->second.troubles) {
      out.troubles.push_back(trouble.message);
    }
  }
  return out;
}

}  // namespace holdfast::agent
