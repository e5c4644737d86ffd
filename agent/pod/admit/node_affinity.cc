// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/node_affinity.h"

#include <algorithm>

#include "agent/kube/node_selector.h"

namespace holdfast::agent {
namespace {

bool Tolerates(const corev1::Toleration& toleration, const corev1::Taint& taint) {
  if (!toleration.effect().empty() && toleration.effect() != taint.effect()) return false;
  if (!toleration.key().empty() && toleration.key() != taint.key()) return false;
  if (toleration.operator_() == "Exists") return true;
  return !toleration.key().empty() && toleration.value() == taint.value();
}

}  // namespace

bool MatchesNode(const corev1::PodSpec& spec, const NodeOffer& node) {
  for (const auto& [key, value] : spec.nodeselector()) {
    const auto label = node.labels.find(key);
    if (label == node.labels.end() || label->second != value) return false;
  }
  const corev1::NodeAffinity& affinity = spec.affinity().nodeaffinity();
  if (!affinity.has_requiredduringschedulingignoredduringexecution()) return true;
  return kube::MatchesNode(affinity.requiredduringschedulingignoredduringexecution(), node.name,
                           node.labels);
}

bool Tolerates(const corev1::PodSpec& spec, const corev1::Taint& taint) {
  return std::ranges::any_of(spec.tolerations(),
                             [&](const auto& toleration) { return Tolerates(toleration, taint); });
}

bool ToleratesNode(const corev1::PodSpec& spec, const NodeOffer& node) {
  return std::ranges::all_of(node.taints, [&](const corev1::Taint& taint) {
    return taint.effect() != "NoExecute" || Tolerates(spec, taint);
  });
}

}  // namespace holdfast::agent
