// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/node_selector.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "agent/kube/types_fwd.h"

namespace holdfast::agent::kube {
namespace {

std::optional<int64_t> NumberIn(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// `value`: nullptr when the node has no such label.
bool MeetsRequirement(const corev1::NodeSelectorRequirement& wish, const std::string* value) {
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
bool MatchesTerm(const corev1::NodeSelectorTerm& term, const std::string& name,
                 const std::map<std::string, std::string>& labels) {
  if (term.matchexpressions().empty() && term.matchfields().empty()) return false;
  const auto labelled = [&](const auto& wish) {
    const auto label = labels.find(wish.key());
    return MeetsRequirement(wish, label == labels.end() ? nullptr : &label->second);
  };
  const auto named = [&](const auto& wish) {
    return MeetsRequirement(wish, wish.key() == "metadata.name" ? &name : nullptr);
  };
  return std::all_of(term.matchexpressions().begin(), term.matchexpressions().end(), labelled) &&
         std::all_of(term.matchfields().begin(), term.matchfields().end(), named);
}

}  // namespace

bool MatchesNode(const corev1::NodeSelector& selector, const std::string& name,
                 const std::map<std::string, std::string>& labels) {
  const auto& terms = selector.nodeselectorterms();
  return std::any_of(terms.begin(), terms.end(),
                     [&](const auto& term) { return MatchesTerm(term, name, labels); });
}

}  // namespace holdfast::agent::kube
