// SPDX-License-Identifier: Apache-2.0
#include "agent/report/mirror_plan.h"

#include <algorithm>

#include "agent/kube/pod_identity.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

std::string Annotation(const corev1::Pod& pod, const char* name) {
  const auto it = pod.metadata().annotations().find(name);
  return it == pod.metadata().annotations().end() ? "" : it->second;
}

// Of a Node that is no more: the server's garbage collector takes such a one away.
bool IsOfFormerNode(const corev1::Pod& mirror, const std::string& node_uid) {
  return !node_uid.empty() &&
         std::ranges::any_of(mirror.metadata().ownerreferences(), [&](const auto& owner) {
           return owner.kind() == "Node" && owner.uid() != node_uid;
         });
}

}  // namespace

MirrorStep NextMirrorStep(const MirrorFacts& facts) {
  if (facts.mirror == nullptr) {
    return facts.pod != nullptr && !facts.node_uid.empty() ? MirrorStep::kCreate
                                                           : MirrorStep::kNone;
  }
  if (facts.pod == nullptr) {
    return facts.pod_is_gone ? MirrorStep::kDelete : MirrorStep::kLookLater;
  }
  const bool is_its = Annotation(*facts.mirror, kube::kConfigMirrorAnnotation) ==
                      Annotation(*facts.pod, kube::kConfigHashAnnotation);
  const bool stays = is_its && !facts.mirror->metadata().has_deletiontimestamp() &&
                     !IsOfFormerNode(*facts.mirror, facts.node_uid);
  return stays ? MirrorStep::kNone : MirrorStep::kDelete;
}

corev1::Pod MirrorOf(const corev1::Pod& pod, const std::string& node_name,
                     const std::string& node_uid) {
  corev1::Pod mirror = pod;
  mirror.clear_status();
  auto* meta = mirror.mutable_metadata();
  (*meta->mutable_annotations())[kube::kConfigMirrorAnnotation] =
      Annotation(pod, kube::kConfigHashAnnotation);
  meta->clear_ownerreferences();
  auto* owner = meta->add_ownerreferences();
  owner->set_apiversion("v1");
  owner->set_kind("Node");
  owner->set_name(node_name);
  owner->set_uid(node_uid);
  owner->set_controller(true);
  return mirror;
}

}  // namespace holdfast::agent
