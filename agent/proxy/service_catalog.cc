// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_catalog.h"

#include <utility>

#include "agent/proxy/convert.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {

bool ServiceCatalog::SetService(const model::ServiceName& name, ServicePtr service,
                                std::vector<ServiceTrouble> troubles) {
  const std::lock_guard lock(mutex_);
  Entry& entry = services_[name];
  const bool news = entry.troubles != troubles;
  entry = {std::move(service), std::move(troubles)};
  return news;
}

void ServiceCatalog::RemoveService(const model::ServiceName& name) {
  const std::lock_guard lock(mutex_);
  services_.erase(name);
}

void ServiceCatalog::SetSlice(const SlicePtr& slice) {
  const auto& meta = slice->metadata();
  const std::lock_guard lock(mutex_);
  slices_[{meta.namespace_(), meta.name()}] = slice;
}

void ServiceCatalog::RemoveSlice(const SliceKey& key) {
  const std::lock_guard lock(mutex_);
  slices_.erase(key);
}

ServicePtr ServiceCatalog::Find(const model::ServiceName& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = services_.find(name);
  return found == services_.end() ? nullptr : found->second.service;
}

std::vector<ServiceTrouble> ServiceCatalog::TroublesOf(const model::ServiceName& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = services_.find(name);
  return found == services_.end() ? std::vector<ServiceTrouble>() : found->second.troubles;
}

std::vector<ServicePtr> ServiceCatalog::Services() const {
  const std::lock_guard lock(mutex_);
  std::vector<ServicePtr> out;
  for (const auto& [name, entry] : services_) out.push_back(entry.service);
  return out;
}

std::vector<ServicePtr> ServiceCatalog::Services(const std::string& of_namespace) const {
  const std::lock_guard lock(mutex_);
  std::vector<ServicePtr> out;
  for (auto it = services_.lower_bound({of_namespace, ""});
       it != services_.end() && it->first.object_namespace == of_namespace; ++it) {
    out.push_back(it->second.service);
  }
  return out;
}

std::vector<SlicePtr> ServiceCatalog::Slices() const {
  const std::lock_guard lock(mutex_);
  std::vector<SlicePtr> out;
  for (const auto& [key, slice] : slices_) out.push_back(slice);
  return out;
}

std::vector<SlicePtr> ServiceCatalog::SlicesOf(const model::ServiceName& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<SlicePtr> out;
  for (auto it = slices_.lower_bound({name.object_namespace, ""});
       it != slices_.end() && it->first.first == name.object_namespace; ++it) {
    const auto& labels = it->second->metadata().labels();
    const auto label = labels.find(kServiceNameLabel);
    if (label != labels.end() && label->second == name.name) out.push_back(it->second);
  }
  return out;
}

}  // namespace holdfast::agent
