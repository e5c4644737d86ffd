// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_patch.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "agent/kube/codec.h"
#include "agent/kube/print.h"
#include "agent/kube/quantity.h"
#include "agent/kube/tree.h"
#include "agent/node/node_builder.h"

namespace holdfast::agent {
namespace {

using kube::CompactJson;
using kube::Member;
using Tree = kube::Node;

constexpr std::string_view kHugePagesPrefix = "hugepages-";

bool Same(const Tree* a, const Tree* b) {
  return a != nullptr && b != nullptr ? CompactJson(*a) == CompactJson(*b) : a == b;
}

void AddIfAny(Tree& to, const char* key, Tree map) {
  if (!map.members.empty()) to.Add(key, std::move(map));
}

// What leads from `server` to `ours`, maps within maps; a null takes away.
Tree MapDifference(const Tree& server, const Tree& ours) {
  Tree difference = Tree::Map();
  for (const Member& member : ours.members) {
    const Tree* there = server.Find(member.key);
    if (Same(there, &member.value)) continue;
    const bool maps = there != nullptr && there->kind == Tree::Kind::kMap &&
                      member.value.kind == Tree::Kind::kMap;
    difference.Add(member.key, maps ? MapDifference(*there, member.value) : member.value);
  }
  for (const Member& member : server.members) {
    if (ours.Find(member.key) == nullptr) difference.Add(member.key, Tree());
  }
  return difference;
}

// --- metadata ---

// Others' entries stay.
Tree Additions(const auto& server, const auto& ours) {
  Tree difference = Tree::Map();
  for (const auto& [key, value] : ours) {
    const auto there = server.find(key);
    if (there == server.end() || there->second != value) difference.Add(key, Tree::String(value));
  }
  std::sort(difference.members.begin(), difference.members.end(),
            [](const Member& a, const Member& b) { return a.key < b.key; });
  return difference;
}

// Those that the configuration of an earlier agent gave.
void RemoveFormerLabels(const metav1::ObjectMeta& server, const metav1::ObjectMeta& ours,
                        Tree& labels, Tree& annotations) {
  const auto former = server.annotations().find(kLabelsAnnotation);
  if (former == server.annotations().end()) return;
  std::istringstream keys(former->second);
  for (std::string key; std::getline(keys, key, ',');) {
    if (ours.labels().contains(key) || !server.labels().contains(key)) continue;
    if (labels.Find(key) == nullptr) labels.Add(key, Tree());
  }
  if (!ours.annotations().contains(kLabelsAnnotation)) annotations.Add(kLabelsAnnotation, Tree());
}

Tree MetaDifference(const metav1::ObjectMeta& server, const metav1::ObjectMeta& ours) {
  Tree labels = Additions(server.labels(), ours.labels());
  Tree annotations = Additions(server.annotations(), ours.annotations());
  RemoveFormerLabels(server, ours, labels, annotations);
  Tree difference = Tree::Map();
  AddIfAny(difference, "labels", std::move(labels));
  AddIfAny(difference, "annotations", std::move(annotations));
  return difference;
}

// --- resources ---

bool SameAmount(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto left = kube::Amount::Parse(a);
  const auto right = kube::Amount::Parse(b);
  return left && right && *left == *right;
}

// The server has its own way to write an amount. Of what the machine no longer has only huge pages go: a resource that
// we do not know is somebody else's.
Tree ResourceDifference(const auto& server, const auto& ours) {
  Tree difference = Tree::Map();
  for (const auto& [name, amount] : ours) {
    const auto there = server.find(name);
    if (there == server.end() || !SameAmount(there->second.string(), amount.string()))
      difference.Add(name, Tree::String(amount.string()));
  }
  for (const auto& [name, amount] : server) {
    if (name.starts_with(kHugePagesPrefix) && !ours.contains(name)) difference.Add(name, Tree());
  }
  std::sort(difference.members.begin(), difference.members.end(),
            [](const Member& a, const Member& b) { return a.key < b.key; });
  return difference;
}

// --- conditions ---

bool IsOwn(const std::string& type) {
  return std::find(std::begin(kOwnConditions), std::end(kOwnConditions), type) !=
         std::end(kOwnConditions);
}

struct Conditions {
  Tree list = Tree::List();
  Tree order = Tree::List();
  bool changes = false;
};

Tree TypeOnly(const std::string& type) {
  Tree element = Tree::Map();
  element.Add("type", Tree::String(type));
  return element;
}

// Of one that is the same only the heartbeat.
Conditions ConditionDifference(const corev1::NodeStatus& server, const corev1::NodeStatus& ours) {
  Conditions out;
  for (const auto& condition : server.conditions()) {
    if (!IsOwn(condition.type())) out.order.items.push_back(TypeOnly(condition.type()));
  }
  for (const corev1::NodeCondition& condition : ours.conditions()) {
    out.order.items.push_back(TypeOnly(condition.type()));
    const Tree whole = kube::ToTree(condition);
    const corev1::NodeCondition* there = FindCondition(server, condition.type());
    corev1::NodeCondition same_time = there != nullptr ? *there : corev1::NodeCondition();
    *same_time.mutable_lastheartbeattime() = condition.lastheartbeattime();
    const Tree with_same_time = kube::ToTree(same_time);
    if (there == nullptr || !Same(&with_same_time, &whole)) {
      out.list.items.push_back(whole);
      out.changes = true;
    } else if (!Same(kube::ToTree(*there).Find("lastHeartbeatTime"),
                     whole.Find("lastHeartbeatTime"))) {
      Tree beat = Tree::Map();
      beat.Add("lastHeartbeatTime", *whole.Find("lastHeartbeatTime"));
      beat.Add("type", Tree::String(condition.type()));
      out.list.items.push_back(std::move(beat));
    }
  }
  return out;
}

// --- the rest ---

// A server merges addresses by their type, of which there may be two, and would mix them up.
void AddAddresses(const Tree& server, const Tree& ours, Tree& status) {
  const Tree* there = server.Find("addresses");
  const Tree* here = ours.Find("addresses");
  if (here == nullptr || Same(there, here)) return;
  Tree list = *here;
  if (there != nullptr && !there->items.empty()) {
    Tree directive = Tree::Map();
    directive.Add("$patch", Tree::String("replace"));
    list.items.push_back(std::move(directive));
  }
  status.Add("addresses", std::move(list));
}

void AddMaps(const Tree& server, const Tree& ours, Tree& status) {
  for (const char* key : {"daemonEndpoints", "features", "nodeInfo"}) {
    const Tree* there = server.Find(key);
    const Tree* here = ours.Find(key);
    AddIfAny(status, key,
             MapDifference(there != nullptr ? *there : Tree::Map(),
                           here != nullptr ? *here : Tree::Map()));
  }
}

// Each is replaced as a whole.
void AddLists(const Tree& server, const Tree& ours, const Tree& sent, Tree& status) {
  for (const std::string_view key :
       {"declaredFeatures", "images", "runtimeHandlers", "volumesInUse"}) {
    const Tree* there = server.Find(key);
    const Tree* here = ours.Find(key);
    if (Same(there, here)) continue;
    // An older server drops what it does not know.
    if (key != "images" && key != "volumesInUse" && there == nullptr && Same(sent.Find(key), here))
      continue;
    status.Add(std::string(key), here != nullptr ? *here : Tree());
  }
}

}  // namespace

NodePatch PatchNode(const corev1::Node& server, const corev1::Node& ours,
                    const corev1::NodeStatus* sent) {
  const Tree there = kube::ToTree(server.status());
  const Tree here = kube::ToTree(ours.status());
  Tree status = Tree::Map();
  AddIfAny(status, "capacity",
           ResourceDifference(server.status().capacity(), ours.status().capacity()));
  AddIfAny(status, "allocatable",
           ResourceDifference(server.status().allocatable(), ours.status().allocatable()));
  AddAddresses(there, here, status);
  AddMaps(there, here, status);
  AddLists(there, here, sent != nullptr ? kube::ToTree(*sent) : Tree::Map(), status);
  Tree meta = MetaDifference(server.metadata(), ours.metadata());
  Conditions conditions = ConditionDifference(server.status(), ours.status());
  NodePatch patch;
  patch.changes = !status.members.empty() || !meta.members.empty() || conditions.changes;
  if (!patch.changes && conditions.list.items.empty()) return patch;
  if (!conditions.list.items.empty()) {
    status.Add("$setElementOrder/conditions", std::move(conditions.order));
    status.Add("conditions", std::move(conditions.list));
  }
  meta.Add("uid", Tree::String(server.metadata().uid()));  // of no other Node with this name
  Tree body = Tree::Map();
  body.Add("metadata", std::move(meta));
  AddIfAny(body, "status", std::move(status));
  patch.body = CompactJson(body);
  return patch;
}

}  // namespace holdfast::agent
