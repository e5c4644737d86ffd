// SPDX-License-Identifier: Apache-2.0
#include "agent/source/pod_change.h"

#include <google/protobuf/util/message_differencer.h>

#include "agent/kube/pod_identity.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;
using google::protobuf::util::MessageDifferencer;

void DropBookkeeping(corev1::Pod& pod) {
  pod.clear_status();
  auto* meta = pod.mutable_metadata();
  meta->clear_managedfields();
  meta->clear_resourceversion();
  meta->mutable_annotations()->erase(kube::kConfigSeenAnnotation);
}

// The fields of ValidatePodUpdate, and what others keep in the metadata.
void DropChangeable(corev1::Pod& pod) {
  auto* meta = pod.mutable_metadata();
  meta->clear_labels();
  meta->clear_annotations();
  meta->clear_generation();
  meta->clear_finalizers();
  meta->clear_ownerreferences();
  meta->clear_deletiontimestamp();
  meta->clear_deletiongraceperiodseconds();
  corev1::PodSpec* spec = pod.mutable_spec();
  for (auto* list : {spec->mutable_initcontainers(), spec->mutable_containers()}) {
    for (corev1::Container& container : *list) container.clear_image();
  }
  spec->clear_ephemeralcontainers();
  spec->clear_activedeadlineseconds();
  spec->clear_terminationgraceperiodseconds();
  spec->clear_tolerations();
}

}  // namespace

PodChangeKind ComparePods(const corev1::Pod& before, const corev1::Pod& after) {
  if (&before == &after) return PodChangeKind::kNone;
  corev1::Pod old = before;
  corev1::Pod fresh = after;
  DropBookkeeping(old);
  DropBookkeeping(fresh);
  if (MessageDifferencer::Equals(old, fresh)) return PodChangeKind::kNone;
  DropChangeable(old);
  DropChangeable(fresh);
  return MessageDifferencer::Equals(old, fresh) ? PodChangeKind::kInPlace
                                                : PodChangeKind::kReplaced;
}

}  // namespace holdfast::agent
