// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/shown_services.h"

#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent {

ShownServices::ShownServices(const ServiceCatalog& catalog, ServiceDriver& driver,
                             const netproxy::TableOptions& table, Announced announced)
    : catalog_(catalog),
      driver_(driver),
      local_(table.settings->local),
      announced_(std::move(announced)),
      node_addresses_(table.node_addresses) {}

void ShownServices::SetNodeAddresses(std::vector<IpAddress> addresses) {
  const std::lock_guard lock(mutex_);
  node_addresses_ = std::move(addresses);
}

Result<ExplainedService> ShownServices::Explain(const model::ServiceName& name) const {
  auto table = driver_.Explain(name);
  if (!table) return NotFound(StrCat("services \"", name.name, "\" not found"));
  ExplainedService out;
  out.table = std::move(*table);
  out.local = local_;
  out.slices = catalog_.SlicesOf(name);
  for (const netproxy::ExplainedPort& port : out.table.ports) {
    for (const model::Frontend& frontend : port.row.frontends) {
      if (announced_) out.announced[frontend.address] = announced_(frontend.address);
    }
  }
  for (ServiceTrouble& trouble : catalog_.TroublesOf(name)) {
    out.troubles.push_back(std::move(trouble.message));
  }
  const std::lock_guard lock(mutex_);
  out.node_addresses = node_addresses_;
  return out;
}

}  // namespace holdfast::agent
