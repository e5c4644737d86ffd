// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_fact.h"

#include "agent/kube/types_fwd.h"

namespace holdfast::agent {

NodeFact FactOf(const corev1::Node& node) {
  NodeFact fact;
  fact.name = node.metadata().name();
  fact.uid = node.metadata().uid();
  fact.labels.insert(node.metadata().labels().begin(), node.metadata().labels().end());
  if (const auto zone = fact.labels.find("topology.kubernetes.io/zone"); zone != fact.labels.end())
    fact.zone = zone->second;
  const auto add = [&](const std::string& range) {
    if (auto cidr = Cidr::Parse(range)) fact.pod_ranges.push_back(*cidr);
  };
  for (const std::string& range : node.spec().podcidrs()) add(range);
  if (fact.pod_ranges.empty()) add(node.spec().podcidr());
  return fact;
}

}  // namespace holdfast::agent
