// SPDX-License-Identifier: Apache-2.0
// Services and EndpointSlices of Kubernetes as the table's compact ones. Pure, but for the numbers
// that NodeNumbers gives out. What cannot be read (the API server checks it) is left out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/kube/types_fwd.h"
#include "holdfast/model/service.h"

namespace holdfast::agent {

inline constexpr char kServiceNameLabel[] = "kubernetes.io/service-name";
inline constexpr char kProxyNameLabel[] = "service.kubernetes.io/service-proxy-name";
inline constexpr char kHeadlessIp[] = "None";  // spec.clusterIP of a headless Service

// What decides whether an endpoint is here, and which hints mean us. When one of them changes, all
// slices are converted again.
struct NodeIdentity {
  std::string name;
  std::string zone;  // "" when unknown
  bool operator==(const NodeIdentity&) const = default;
};

// Names of nodes as small numbers (model::SliceEndpoint::origin). Single-thread.
class NodeNumbers {
 public:
  uint32_t NumberOf(const std::string& node);  // 0 for ""
  std::string NameOf(uint32_t number) const;   // "" for what was never given out

 private:
  std::map<std::string, uint32_t> numbers_;
  std::vector<std::string> names_ = {""};
};

model::ServiceName NameOf(const corev1::Service& service);
model::Service ToModel(const corev1::Service& service);

// Nothing for slices of no service, and of host names.
std::optional<model::EndpointSlice> ToModel(const discoveryv1::EndpointSlice& slice,
                                            const NodeIdentity& node, NodeNumbers& numbers);

}  // namespace holdfast::agent
