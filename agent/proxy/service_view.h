// SPDX-License-Identifier: Apache-2.0
// ServiceView: what the API shows of Services. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/kube/types_fwd.h"
#include "holdfast/base/result.h"
#include "holdfast/model/service.h"
#include "netproxy/table/service_tracker.h"

namespace holdfast::agent {

using ServicePtr = std::shared_ptr<const corev1::Service>;
using SlicePtr = std::shared_ptr<const discoveryv1::EndpointSlice>;

struct ExplainedService {
  netproxy::ServiceExplanation table;
  std::vector<std::string> troubles;  // addresses and ports that it could not get
  std::vector<SlicePtr> slices;       // what its endpoints come from
  // How a packet's source is classified.
  model::LocalSources local;
  std::vector<IpAddress> node_addresses;
  // Who answers for a frontend's address on the local segments, one line each.
  std::map<IpAddress, std::vector<std::string>> announced;
};

class ServiceView {
 public:
  virtual ~ServiceView() = default;
  // With the addresses and ports they have; sorted by namespace, then name.
  virtual std::vector<ServicePtr> ListServices() const = 0;
  virtual std::vector<SlicePtr> ListSlices() const = 0;
  // kNotFound: `services "x" not found`.
  virtual Result<ExplainedService> Explain(const model::ServiceName& name) const = 0;
  // The rules in the language of the tool that loads them; the first line names the mode. Blocks
  // while rules are being written. kUnavailable before the first ones are.
  virtual Result<std::string> DumpRules() = 0;
};

}  // namespace holdfast::agent
