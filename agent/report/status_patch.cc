// SPDX-License-Identifier: Apache-2.0
#include "agent/report/status_patch.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/kube/codec.h"
#include "agent/kube/message_bytes.h"
#include "agent/kube/pod_status.h"
#include "agent/kube/print.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;
namespace metav1 = ::k8s::io::apimachinery::pkg::apis::meta::v1;
using kube::Node;

// Both sides as the server writes them, so that an absent value and an empty one are the same where
// they are for the server.
class Patch {
 public:
  Patch(const corev1::PodStatus& server, const corev1::PodStatus& ours)
      : server_(server), ours_(ours) {
    corev1::PodStatus theirs = server;
    corev1::PodStatus mine = ours;
    DropWhatNeedsNoTree(theirs, mine);
    theirs_ = kube::ToTree(theirs);
    mine_ = kube::ToTree(mine);
  }

  Node Make() && {
    if (!kube::IsTerminalPhase(server_.phase())) Replace("phase");
    ReplaceOrRemove("reason");
    ReplaceOrRemove("message");
    AddConditions();
    AddAddresses("hostIP", "hostIPs");
    AddAddresses("podIP", "podIPs");
    if (theirs_.Find("startTime") == nullptr) Replace("startTime");
    for (const char* list :
         {"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"}) {
      Replace(list);
    }
    Replace("allocatedResources");
    Replace("resources");
    Replace("observedGeneration");
    return std::move(status_);
  }

 private:
  // A tree is the dearest of a patch, and most patches leave most containers as they are.
  static void DropWhatNeedsNoTree(corev1::PodStatus& theirs, corev1::PodStatus& mine) {
    theirs.clear_conditions();  // compared as messages
    mine.clear_conditions();
    const auto drop_if_same = [](auto* one, auto* other) {
      if (!std::ranges::equal(*one, *other, kube::SameMessage)) return;
      one->Clear();
      other->Clear();
    };
    drop_if_same(theirs.mutable_initcontainerstatuses(), mine.mutable_initcontainerstatuses());
    drop_if_same(theirs.mutable_containerstatuses(), mine.mutable_containerstatuses());
    drop_if_same(theirs.mutable_ephemeralcontainerstatuses(),
                 mine.mutable_ephemeralcontainerstatuses());
  }

  static bool Same(const Node* a, const Node* b) {
    return a != nullptr && b != nullptr && kube::CompactJson(*a) == kube::CompactJson(*b);
  }

  // Lists of containers have no merge key: they go as a whole.
  void Replace(const char* field) {
    const Node* mine = mine_.Find(field);
    if (mine != nullptr && !Same(mine, theirs_.Find(field))) status_.Add(field, *mine);
  }

  void ReplaceOrRemove(const char* field) {
    if (mine_.Find(field) != nullptr) return Replace(field);
    if (theirs_.Find(field) != nullptr) status_.Add(field, Node());
  }

  // Merged by "ip": what is not named would stay. The server wants the first one in `single`, too.
  void AddAddresses(const char* single, const char* list) {
    const Node* mine = mine_.Find(list);
    const Node* theirs = theirs_.Find(list);
    const Node* first = mine_.Find(single);
    if (mine == nullptr || first == nullptr) return;
    if (Same(mine, theirs) && Same(first, theirs_.Find(single))) return;
    Node items = *mine;
    if (theirs != nullptr) {
      for (const Node& one : theirs->items) {
        const auto same = [&](const Node& other) { return Same(&one, &other); };
        if (std::ranges::any_of(mine->items, same)) continue;
        Node removed = Node::Map();
        removed.Add("$patch", Node::String("delete"));
        removed.Add("ip", *one.Find("ip"));
        items.items.push_back(std::move(removed));
      }
    }
    status_.Add(single, *first);
    status_.Add(StrCat("$setElementOrder/", list), *mine);
    status_.Add(list, std::move(items));
  }

  static const corev1::PodCondition* Find(const corev1::PodStatus& status,
                                          const std::string& type) {
    const auto it = std::ranges::find(status.conditions(), type, &corev1::PodCondition::type);
    return it == status.conditions().end() ? nullptr : &*it;
  }

  // Merged by "type".
  void AddConditions() {
    Node list = Node::List();
    for (const corev1::PodCondition& condition : ours_.conditions()) {
      const bool writes =
          kube::IsNodeCondition(condition.type()) || condition.type() == kube::kDisruptionTarget;
      if (!writes) continue;
      Node changes = Changes(condition, Find(server_, condition.type()));
      if (changes.members.empty()) continue;
      changes.Add("type", Node::String(condition.type()));
      list.items.push_back(std::move(changes));
    }
    for (const corev1::PodCondition& condition : server_.conditions()) {
      const std::string& type = condition.type();
      if (!kube::IsNodeCondition(type) || type == "PodScheduled" || Find(ours_, type)) continue;
      Node removed = Node::Map();
      removed.Add("$patch", Node::String("delete"));
      removed.Add("type", Node::String(type));
      list.items.push_back(std::move(removed));
    }
    if (!list.items.empty()) status_.Add("conditions", std::move(list));
  }

  static Node TimeNode(const metav1::Time& time) {
    return Node::String(kube::FormatRfc3339({time.seconds(), 0}));
  }

  // The time of a transition is told with a transition only.
  static Node Changes(const corev1::PodCondition& ours, const corev1::PodCondition* server) {
    Node changes = Node::Map();
    const bool scheduled = ours.type() == "PodScheduled" && server != nullptr;
    if (!scheduled) {
      const bool turned = server == nullptr || server->status() != ours.status();
      if (turned) changes.Add("status", Node::String(ours.status()));
      // Of a resize the reason counts: its condition is never anything but true.
      const bool other_reason =
          ours.has_lastprobetime() && server != nullptr && server->reason() != ours.reason();
      if (turned || other_reason) {
        changes.Add("lastTransitionTime", TimeNode(ours.lasttransitiontime()));
      }
      const auto text = [&](const char* name, const std::string& wanted, const std::string& known) {
        if (wanted != known) changes.Add(name, wanted.empty() ? Node() : Node::String(wanted));
      };
      static const std::string kNone;
      text("reason", ours.reason(), server != nullptr ? server->reason() : kNone);
      text("message", ours.message(), server != nullptr ? server->message() : kNone);
    }
    const int64_t known = server != nullptr ? server->observedgeneration() : 0;
    if (ours.observedgeneration() != 0 && ours.observedgeneration() != known) {
      changes.Add("observedGeneration", Node::Int(ours.observedgeneration()));
    }
    if (ours.has_lastprobetime() && !changes.members.empty()) {
      changes.Add("lastProbeTime", TimeNode(ours.lastprobetime()));
    }
    return changes;
  }

  const corev1::PodStatus& server_;
  const corev1::PodStatus& ours_;
  Node theirs_, mine_;
  Node status_ = Node::Map();
};

}  // namespace

std::string StatusPatch(const PodUid& uid, const corev1::PodStatus& server,
                        const corev1::PodStatus& ours) {
  Node status = Patch(server, ours).Make();
  if (status.members.empty()) return "";
  Node metadata = Node::Map();
  metadata.Add("uid", Node::String(uid.value));
  Node patch = Node::Map();
  patch.Add("metadata", std::move(metadata));
  patch.Add("status", std::move(status));
  return kube::CompactJson(patch);
}

}  // namespace holdfast::agent
