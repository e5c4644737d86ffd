// SPDX-License-Identifier: Apache-2.0
// FakeServiceView: Services that a test sets before it asks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/proxy/service_view.h"

namespace holdfast::agent {

class FakeServiceView : public ServiceView {
 public:
  std::vector<ServicePtr> services;
  std::vector<SlicePtr> slices;
  std::map<model::ServiceName, ExplainedService> explained;
  Result<std::string> rules = Unavailable("service proxy: no rules are written yet");

  std::vector<ServicePtr> ListServices() const override { return services; }
  std::vector<SlicePtr> ListSlices() const override { return slices; }
  Result<ExplainedService> Explain(const model::ServiceName& name) const override {
    const auto found = explained.find(name);
    if (found == explained.end()) return NotFound("services \"" + name.name + "\" not found");
    return found->second;
  }
  Result<std::string> DumpRules() override { return rules; }
};

}  // namespace holdfast::agent
