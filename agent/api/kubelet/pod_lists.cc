// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/pod_lists.h"

#include "agent/kube/codec.h"

namespace holdfast::agent::api {
namespace {

namespace core = ::k8s::io::api::core::v1;

void AddRunning(const core::Pod& pod, core::PodList& list) {
  core::Pod shown;
  for (const auto* statuses :
       {&pod.status().initcontainerstatuses(), &pod.status().containerstatuses(),
        &pod.status().ephemeralcontainerstatuses()}) {
    for (const auto& status : *statuses) {
      if (!status.state().has_running()) continue;
      core::Container& container = *shown.mutable_spec()->add_containers();
      container.set_name(status.name());
      container.set_image(status.image());
    }
  }
  if (shown.spec().containers().empty()) return;
  auto& meta = *shown.mutable_metadata();
  meta.set_name(pod.metadata().name());
  meta.set_namespace_(pod.metadata().namespace_());
  meta.set_uid(pod.metadata().uid());
  *list.add_items() = std::move(shown);
}

}  // namespace

std::string PodsJson(const PodView& pods) {
  core::PodList list;
  list.mutable_metadata();
  for (const PodPtr& pod : pods.ListPods()) *list.add_items() = *pod;
  return kube::EncodeJson(list);
}

std::string RunningPodsJson(const PodView& pods) {
  core::PodList list;
  list.mutable_metadata();
  for (const PodPtr& pod : pods.ListPods()) AddRunning(*pod, list);
  return kube::EncodeJson(list);
}

}  // namespace holdfast::agent::api
