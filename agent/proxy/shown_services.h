// SPDX-License-Identifier: Apache-2.0
// ShownServices: the ServiceView over catalog, driver and announcements. Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "agent/proxy/service_catalog.h"
#include "agent/proxy/service_driver.h"
#include "agent/proxy/service_view.h"
#include "holdfast/model/service_table.h"

namespace holdfast::agent {

class ShownServices : public ServiceView {
 public:
  // Who answers for an address on the local segments, one line each.
  using Announced = std::function<std::vector<std::string>(const IpAddress&)>;

  // `catalog` and `driver` are borrowed; `announced` may be empty.
  ShownServices(const ServiceCatalog& catalog, ServiceDriver& driver,
                const netproxy::TableOptions& table, Announced announced);

  std::vector<ServicePtr> ListServices() const override { return catalog_.Services(); }
  std::vector<SlicePtr> ListSlices() const override { return catalog_.Slices(); }
  Result<ExplainedService> Explain(const model::ServiceName& name) const override;
  Result<std::string> DumpRules() override { return driver_.Dump(); }

  void SetNodeAddresses(std::vector<IpAddress> addresses);

 private:
  const ServiceCatalog& catalog_;
  ServiceDriver& driver_;
  const model::LocalSources local_;
  const Announced announced_;
  mutable std::mutex mutex_;
  std::vector<IpAddress> node_addresses_;
};

}  // namespace holdfast::agent
