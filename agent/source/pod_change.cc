// SPDX-License-Identifier: Apache-2.0
#include "agent/source/pod_change.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <string>

#include "agent/kube/message_bytes.h"
#include "agent/kube/pod_identity.h"
#include "agent/kube/pod_resources.h"
#include "agent/kube/pod_status.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;
namespace metav1 = ::k8s::io::apimachinery::pkg::apis::meta::v1;
using google::protobuf::util::MessageDifferencer;
using Annotations = google::protobuf::Map<std::string, std::string>;

bool HoldsAllOf(const Annotations& annotations, const Annotations& wanted) {
  return std::ranges::all_of(wanted, [&](const auto& entry) {
    if (entry.first == kube::kConfigSeenAnnotation) return true;
    const auto it = annotations.find(entry.first);
    return it != annotations.end() && it->second == entry.second;
  });
}

// Without copies: each echo of a status that the node reported is compared.
bool SameMetadata(const metav1::ObjectMeta& before, const metav1::ObjectMeta& after) {
  MessageDifferencer differencer;
  for (const int field : {metav1::ObjectMeta::kResourceVersionFieldNumber,
                          metav1::ObjectMeta::kManagedFieldsFieldNumber,
                          metav1::ObjectMeta::kAnnotationsFieldNumber}) {
    differencer.IgnoreField(metav1::ObjectMeta::descriptor()->FindFieldByNumber(field));
  }
  return differencer.Compare(before, after) &&
         HoldsAllOf(before.annotations(), after.annotations()) &&
         HoldsAllOf(after.annotations(), before.annotations());
}

const corev1::PodCondition* FindCondition(const corev1::PodStatus& status,
                                          const std::string& type) {
  const auto it = std::ranges::find(status.conditions(), type, &corev1::PodCondition::type);
  return it == status.conditions().end() ? nullptr : &*it;
}

bool HoldsOthersOf(const corev1::PodStatus& status, const corev1::PodStatus& wanted) {
  return std::ranges::all_of(wanted.conditions(), [&](const corev1::PodCondition& condition) {
    if (kube::IsNodeCondition(condition.type())) return true;
    const corev1::PodCondition* known = FindCondition(status, condition.type());
    return known != nullptr && kube::SameMessage(*known, condition);
  });
}

bool OthersSayTheSame(const corev1::PodStatus& before, const corev1::PodStatus& after) {
  return kube::IsTerminalPhase(before.phase()) == kube::IsTerminalPhase(after.phase()) &&
         HoldsOthersOf(before, after) && HoldsOthersOf(after, before);
}

// The fields of ValidatePodUpdate but resources, and what others keep in the metadata.
void DropChangeable(corev1::Pod& pod) {
  pod.clear_status();
  auto* meta = pod.mutable_metadata();
  meta->clear_managedfields();
  meta->clear_resourceversion();
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

using Quantities =
    google::protobuf::Map<std::string, ::k8s::io::apimachinery::pkg::api::resource::Quantity>;

constexpr const char* kResizable[] = {"cpu", "memory"};

bool KeepsAllOf(const Quantities& before, const Quantities& after) {
  return std::ranges::all_of(
      kResizable, [&](const char* name) { return !before.contains(name) || after.contains(name); });
}

bool KeepsAllOf(const corev1::ResourceRequirements& before,
                const corev1::ResourceRequirements& after) {
  return KeepsAllOf(before.requests(), after.requests()) &&
         KeepsAllOf(before.limits(), after.limits());
}

// What ValidatePodResize lets one change: amounts of cpu and memory, but none is taken away, and the QoS class stays.
bool IsResize(const corev1::PodSpec& before, const corev1::PodSpec& after) {
  const auto keep = [](const auto& old, const auto& fresh) {
    return std::ranges::equal(old, fresh, [](const auto& a, const auto& b) {
      return KeepsAllOf(a.resources(), b.resources());
    });
  };
  return kube::ComputeQosClass(before) == kube::ComputeQosClass(after) &&
         KeepsAllOf(before.resources(), after.resources()) &&
         keep(before.initcontainers(), after.initcontainers()) &&
         keep(before.containers(), after.containers());
}

void DropAmounts(corev1::ResourceRequirements* resources) {
  for (const char* name : kResizable) {
    resources->mutable_requests()->erase(name);
    resources->mutable_limits()->erase(name);
  }
}

void DropAmounts(corev1::PodSpec* spec) {
  DropAmounts(spec->mutable_resources());
  for (auto* list : {spec->mutable_initcontainers(), spec->mutable_containers()}) {
    for (corev1::Container& container : *list) DropAmounts(container.mutable_resources());
  }
}

}  // namespace

PodChangeKind ComparePods(const corev1::Pod& before, const corev1::Pod& after) {
  if (&before == &after) return PodChangeKind::kNone;
  if (SameMetadata(before.metadata(), after.metadata()) &&
      kube::SameMessage(before.spec(), after.spec())) {
    return OthersSayTheSame(before.status(), after.status()) ? PodChangeKind::kNone
                                                             : PodChangeKind::kInPlace;
  }
  corev1::Pod old = before;
  corev1::Pod fresh = after;
  DropChangeable(old);
  DropChangeable(fresh);
  if (IsResize(before.spec(), after.spec())) {
    DropAmounts(old.mutable_spec());
    DropAmounts(fresh.mutable_spec());
  }
  return kube::SameMessage(old, fresh) ? PodChangeKind::kInPlace : PodChangeKind::kReplaced;
}

}  // namespace holdfast::agent
