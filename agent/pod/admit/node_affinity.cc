// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/node_affinity.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace holdfast::agent {
namespace {

std::optional<int64_t> NumberIn(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// `value`: nullptr when the node has no such label.
bool Matches(const corev1::NodeSelectorRequirement& wish, const std::string* value) {
  const auto& op = wish.operator_();
  const auto& values = wish.values();
  const bool listed =
      value != nullptr && std::find(values.begin(), values.end(), *value) != values.end();
  if (op == "In") return listed;
  if (op == "NotIn") return !listed;
  if (op == "Exists") return value != nullptr;
  if (op == "DoesNotExist") return value == nullptr;
  if (value == nullptr || values.size() != 1) return false;
  const auto have = NumberIn(*value);
  const auto bound = NumberIn(values[0]);
  if (!have || !bound) return false;
  return op == "Gt" ? *have > *bound : op == "Lt" && *have < *bound;
}

// A term without any wish matches no node.
bool Matches(const corev1::NodeSelectorTerm& term, const NodeOffer& node) {
  if (term.matchexpressions().empty() && term.matchfields().empty()) return false;
  const auto labelled = [&](const auto& wish) {
    const auto label = node.labels.find(wish.key());
    return Matches(wish, label == node.labels.end() ? nullptr : &label->second);
  };
  const auto named = [&](const auto& wish) {
    return Matches(wish, wish.key() == "metadata.name" ? &node.name : nullptr);
  };
  return std::all_of(term.matchexpressions().begin(), term.matchexpressions().end(), labelled) &&
         std::all_of(term.matchfields().begin(), term.matchfields().end(), named);
}

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
  const auto& terms = affinity.requiredduringschedulingignoredduringexecution().nodeselectorterms();
  return std::any_of(terms.begin(), terms.end(),
                     [&](const auto& term) { return Matches(term, node); });
}

bool ToleratesNode(const corev1::PodSpec& spec, const NodeOffer& node) {
  const auto& tolerations = spec.tolerations();
  return std::all_of(node.taints.begin(), node.taints.end(), [&](const corev1::Taint& taint) {
    return taint.effect() != "NoExecute" ||
           std::any_of(tolerations.begin(), tolerations.end(),
                       [&](const auto& toleration) { return Tolerates(toleration, taint); });
  });
}

}  // namespace holdfast::agent
