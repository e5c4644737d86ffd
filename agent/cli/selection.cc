// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/selection.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include "agent/cli/columns.h"
#include "agent/cli/go_text.h"
#include "agent/kube/codec.h"
#include "agent/kube/quantity.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

using kube::Node;

// The API server's lists of fields, besides metadata.name and metadata.namespace.
const std::set<std::string, std::less<>>& FieldsOf(Resource resource) {
  static const std::map<Resource, std::set<std::string, std::less<>>> kFields = {
      {Resource::kPods,
       {"spec.hostNetwork", "spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
        "spec.serviceAccountName", "status.nominatedNodeName", "status.phase", "status.podIP",
        "status.podIPs"}},
      {Resource::kServices, {"spec.clusterIP", "spec.type"}},
      {Resource::kNodes, {"spec.unschedulable"}},
      {Resource::kSecrets, {"type"}},
      {Resource::kEvents,
       {"involvedObject.apiVersion", "involvedObject.fieldPath", "involvedObject.kind",
        "involvedObject.name", "involvedObject.namespace", "involvedObject.resourceVersion",
        "involvedObject.uid", "reason", "reportingComponent", "source", "type"}}};
  static const std::set<std::string, std::less<>> kNone;
  const auto found = kFields.find(resource);
  return found == kFields.end() ? kNone : found->second;
}

// A field's text: "" where there is none, "false" for a bool that is not there.
std::string FieldText(const Node& tree, std::string_view field) {
  if (field == "source") return FieldText(tree, "source.component");
  if (field == "status.podIPs") {
    const Node* status = tree.Find("status");
    const Node* ips = status == nullptr ? nullptr : status->Find("podIPs");
    std::string text;
    for (const Node& ip : ips == nullptr ? std::vector<Node>() : ips->items) {
      text += (text.empty() ? "" : ",") + FieldText(ip, "ip");
    }
    return text;
  }
  const bool is_bool = field == "spec.hostNetwork" || field == "spec.unschedulable";
  const Node* node = &tree;
  while (node != nullptr && !field.empty()) {
    const size_t dot = std::min(field.find('.'), field.size());
    node = node->Find(field.substr(0, dot));
    field.remove_prefix(std::min(dot + 1, field.size()));
  }
  return node == nullptr ? (is_bool ? "false" : "") : node->text;
}

using SortKey = std::optional<Node>;

bool IsSortable(const Node& node) {
  return node.kind == Node::Kind::kInt || node.kind == Node::Kind::kFloat ||
         node.kind == Node::Kind::kString || node.kind == Node::Kind::kNull;
}

// Quantities by what they amount to, other texts as texts.
bool TextLess(const std::string& a, const std::string& b) {
  const auto left = kube::Amount::Parse(a);
  const auto right = kube::Amount::Parse(b);
  return left && right ? *left < *right : a < b;
}

// What is not there first, then nulls.
bool SortsBefore(const SortKey& a, const SortKey& b) {
  if (!a || !b) return !a && b;
  if (a->kind != b->kind) return a->kind == Node::Kind::kNull;
  if (a->kind == Node::Kind::kString) return TextLess(a->text, b->text);
  if (a->kind == Node::Kind::kNull) return false;
  return std::strtod(a->text.c_str(), nullptr) < std::strtod(b->text.c_str(), nullptr);
}

// A path's values are of one kind, and of one that has an order.
Result<void> CheckSortable(const std::string& path, const std::vector<SortKey>& keys) {
  std::optional<Node::Kind> kind;
  for (const SortKey& key : keys) {
    if (!key || key->kind == Node::Kind::kNull) continue;
    const bool other = kind && *kind != key->kind;
    if (keys.size() > 1 && (!IsSortable(*key) || other)) {
      return InvalidArgument(
          StrCat("Field ", path, " is an unsortable type: ", other ? "mixed" : GoType(*key)));
    }
    kind = key->kind;
  }
  return {};
}

}  // namespace

Result<FieldSelector> FieldSelector::Parse(const std::string& text) {
  FieldSelector selector;
  for (const std::string& term : SplitCommas(text)) {
    const size_t equals = term.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidArgument(
          StrCat("invalid selector: '", text, "'; can't understand '", term, "'"));
    }
    const bool unequal = term[equals - 1] == '!';
    const size_t value = equals + (!unequal && term.substr(equals).starts_with("==") ? 2 : 1);
    selector.requirements_.push_back({.field = term.substr(0, equals - (unequal ? 1 : 0)),
                                      .value = term.substr(value),
                                      .equal = !unequal});
  }
  return selector;
}

Result<void> FieldSelector::CheckFor(Resource resource) const {
  for (const Requirement& requirement : requirements_) {
    const std::string& field = requirement.field;
    if (field == "metadata.name" || field == "metadata.namespace") continue;
    if (FieldsOf(resource).contains(field)) continue;
    return InvalidArgument(
        StrCat("\"", field, "\" is not a known field selector for ", Plural(resource)));
  }
  return {};
}

bool FieldSelector::Matches(const Object& object) const {
  if (requirements_.empty()) return true;
  const Node tree = kube::ToTree(*object.message);
  return std::all_of(requirements_.begin(), requirements_.end(), [&](const Requirement& r) {
    return (FieldText(tree, r.field) == r.value) == r.equal;
  });
}

Result<void> SortBy(const std::string& path_text, std::vector<Object>& objects) {
  ASSIGN_OR_RETURN(const JsonPath path, ParseRelaxedPath(path_text));
  std::vector<SortKey> keys;
  for (const Object& object : objects) {
    ASSIGN_OR_RETURN(auto values, path.Values(kube::ToTree(*object.message)));
    const bool none = values.empty() || values.front().empty();
    keys.push_back(none ? std::nullopt : std::optional(std::move(values.front().front())));
  }
  const bool found = std::any_of(keys.begin(), keys.end(), [](const auto& key) { return !!key; });
  if (!found && !objects.empty()) {
    return InvalidArgument(StrCat("couldn't find any field with path \"", RelaxedPath(path_text),
                                  "\" in the list of objects"));
  }
  RETURN_IF_ERROR(CheckSortable(RelaxedPath(path_text), keys));
  std::vector<size_t> order(objects.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return SortsBefore(keys[a], keys[b]); });
  std::vector<Object> sorted;
  for (const size_t index : order) sorted.push_back(std::move(objects[index]));
  objects = std::move(sorted);
  return {};
}

}  // namespace holdfast::agent::cli
