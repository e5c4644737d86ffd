// SPDX-License-Identifier: Apache-2.0
#include "agent/source/pod_of_node.h"

#include <string>

#include "agent/source/object_name.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

using Type = kube::FieldError::Type;

template <class Containers>
void CheckMounts(const Containers& containers, const char* list, kube::FieldErrors& errors) {
  for (int i = 0; i < containers.size(); ++i) {
    const int count = containers[i].volumemounts_size();
    if (count <= kMostVolumeMounts) continue;
    errors.push_back({Type::kTooMany, StrCat("spec.", list, "[", i, "].volumeMounts"),
                      std::to_string(count),
                      StrCat("must have at most ", kMostVolumeMounts, " items")});
  }
}

}  // namespace

kube::FieldErrors CheckPodOfNode(const corev1::Pod& pod, std::string_view node_name) {
  kube::FieldErrors errors;
  // The pod is called after the node, too.
  const size_t length = pod.metadata().name().size() + 1 + node_name.size();
  if (pod.metadata().name().size() <= kLongestName && length > kLongestName) {
    errors.push_back({Type::kInvalid, "metadata.name", StrCat("\"", pod.metadata().name(), "\""),
                      StrCat("with the suffix \"-", node_name, "\" it must be no more than ",
                             kLongestName, " bytes")});
  }
  if (!pod.spec().schedulinggates().empty() && pod.spec().nodename().empty()) {
    errors.push_back({Type::kForbidden, "spec.schedulingGates", "",
                      "a pod from a manifest file is on this node already, whatever its gates"});
  }
  CheckMounts(pod.spec().initcontainers(), "initContainers", errors);
  CheckMounts(pod.spec().containers(), "containers", errors);
  return errors;
}

void ClearSystemFields(corev1::Pod* pod) {
  pod->mutable_metadata()->clear_deletiontimestamp();
  pod->mutable_metadata()->clear_deletiongraceperiodseconds();
}

}  // namespace holdfast::agent
