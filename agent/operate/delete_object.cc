// SPDX-License-Identifier: Apache-2.0
#include "agent/operate/delete_object.h"

#include "agent/pod/decide/spec_containers.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

Result<void> CheckGrace(const DeletionSteps& steps, const Deletion& deletion) {
  if (!deletion.grace) return {};
  if (deletion.kind != "Pod") {
    return InvalidArgument(StrCat("a grace period is for pods, not for a ", deletion.kind));
  }
  if (deletion.grace->count() < 0) {
    return InvalidArgument("grace_period_seconds: must not be negative");
  }
  if (!steps.set_grace) return Unsupported("a grace period cannot be given on this agent");
  return {};
}

// A pod whose manifest is gone already and that is ending: its grace period becomes shorter, never
// longer (feature-map 1.8.5).
EditedObject Shorten(const DeletionSteps& steps, const corev1::Pod& pod,
                     std::optional<std::chrono::seconds> grace) {
  const auto& meta = pod.metadata();
  if (steps.set_grace) steps.set_grace(PodUid(meta.uid()), grace.value_or(GracePeriod(pod)));
  return EditedObject{"Pod", meta.namespace_(), meta.name(), "", EditOutcome::kDeleted};
}

}  // namespace

PodPtr FindPodOfManifest(const PodView& pods, const std::string& node_name,
                         const std::string& pod_namespace, const std::string& name) {
  if (PodPtr pod = pods.FindPod(pod_namespace, name)) return pod;
  return pods.FindPod(pod_namespace, StrCat(name, "-", node_name));
}

// The wish comes first, since the removal is noticed at once; one that is refused leaves none.
Result<EditedObject> DeleteObject(const PodView& pods, const std::string& node_name,
                                  const DeletionSteps& steps, const Deletion& deletion) {
  RETURN_IF_ERROR(CheckGrace(steps, deletion));
  PodPtr pod;
  if (deletion.kind == "Pod") {
    pod = FindPodOfManifest(pods, node_name, deletion.object_namespace, deletion.name);
  }
  if (deletion.grace && pod) steps.set_grace(PodUid(pod->metadata().uid()), deletion.grace);
  auto deleted = steps.remove_manifest(deletion.kind, deletion.object_namespace, deletion.name);
  if (deleted || !pod) return deleted;
  if (deleted.error().code() == Code::kNotFound && pod->metadata().has_deletiontimestamp()) {
    return Shorten(steps, *pod, deletion.grace);
  }
  if (deletion.grace) steps.set_grace(PodUid(pod->metadata().uid()), std::nullopt);
  return deleted;
}

}  // namespace holdfast::agent
