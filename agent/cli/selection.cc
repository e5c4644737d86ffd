// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/selection.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "agent/cli/columns.h"
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

// Whether `a` stands before `b`, with runs of digits compared by their value.
bool NaturalLess(std::string_view a, std::string_view b) {
  const auto digits = [](std::string_view text) {
    size_t count = 0;
    while (count < text.size() && IsDigit(text[count])) ++count;
    return count;
  };
  while (!a.empty() && !b.empty()) {
    const size_t in_a = digits(a);
    const size_t in_b = digits(b);
    if (in_a == 0 || in_b == 0) {
      if (a[0] != b[0]) return a[0] < b[0];
      a.remove_prefix(1);
      b.remove_prefix(1);
      continue;
    }
    const auto number = [](std::string_view run) {
      return run.substr(std::min(run.find_first_not_of('0'), run.size()));
    };
    const std::string_view left = number(a.substr(0, in_a));
    const std::string_view right = number(b.substr(0, in_b));
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
    a.remove_prefix(in_a);
    b.remove_prefix(in_b);
  }
  return a.size() < b.size();
}

bool ValueLess(const std::optional<std::string>& a, const std::optional<std::string>& b) {
  if (!a || !b) return !a && b;
  const auto left = kube::Amount::Parse(*a);
  const auto right = kube::Amount::Parse(*b);
  return left && right ? *left < *right : NaturalLess(*a, *b);
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
  std::vector<std::pair<std::optional<std::string>, Object>> keyed;
  bool found = objects.empty();
  for (const Object& object : objects) {
    ASSIGN_OR_RETURN(std::vector<std::string> values, path.Values(kube::ToTree(*object.message)));
    found = found || !values.empty();
    keyed.emplace_back(values.empty() ? std::nullopt : std::optional(std::move(values.front())),
                       object);
  }
  if (!found) {
    return InvalidArgument(
        StrCat("couldn't find any field with path \"", path_text, "\" in the list of objects"));
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return ValueLess(a.first, b.first); });
  for (size_t i = 0; i < objects.size(); ++i) objects[i] = std::move(keyed[i].second);
  return {};
}

}  // namespace holdfast::agent::cli
