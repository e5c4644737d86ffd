// SPDX-License-Identifier: Apache-2.0
// ServiceCatalog: the Services and EndpointSlices that there are, for the APIs and events.
// Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/proxy/service_completion.h"
#include "agent/proxy/service_view.h"
#include "holdfast/model/service.h"

namespace holdfast::agent {

class ServiceCatalog {
 public:
  using SliceKey = std::pair<std::string, std::string>;  // namespace, name

  // True when its troubles are others than before.
  bool SetService(const model::ServiceName& name, ServicePtr service,
                  std::vector<ServiceTrouble> troubles);
  void RemoveService(const model::ServiceName& name);
  void SetSlice(const SlicePtr& slice);
  void RemoveSlice(const SliceKey& key);

  ServicePtr Find(const model::ServiceName& name) const;  // null when there is none
  std::vector<ServiceTrouble> TroublesOf(const model::ServiceName& name) const;
  std::vector<ServicePtr> Services() const;  // sorted by namespace, then name
  std::vector<ServicePtr> Services(const std::string& of_namespace) const;
  std::vector<SlicePtr> Slices() const;
  std::vector<SlicePtr> SlicesOf(const model::ServiceName& name) const;

 private:
  struct Entry {
    ServicePtr service;
    std::vector<ServiceTrouble> troubles;
  };

  mutable std::mutex mutex_;
  std::map<model::ServiceName, Entry> services_;
  std::map<SliceKey, SlicePtr> slices_;
};

}  // namespace holdfast::agent
