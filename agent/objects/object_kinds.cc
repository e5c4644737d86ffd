// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/object_kinds.h"

namespace holdfast::agent {
namespace {

constexpr char kStorageGroup[] = "storage.k8s.io/v1";

constexpr ObjectKindRow kKindRows[] = {
    {ObjectKind::kConfigMap, "v1", "ConfigMap", "configmaps", "configmap", true, true, false},
    {ObjectKind::kSecret, "v1", "Secret", "secrets", "secret", true, true, false},
    {ObjectKind::kClaim, "v1", "PersistentVolumeClaim", "persistentvolumeclaims",
     "persistentvolumeclaims", true, false, true},
    {ObjectKind::kVolume, "v1", "PersistentVolume", "persistentvolumes", "persistentvolumes", false,
     false, true},
    {ObjectKind::kCsiDriver, kStorageGroup, "CSIDriver", "csidrivers", "csidrivers.storage.k8s.io",
     false, true, true},
    {ObjectKind::kAttachment, kStorageGroup, "VolumeAttachment", "volumeattachments",
     "volumeattachments.storage.k8s.io", false, false, false},
    {ObjectKind::kRuntimeClass, "node.k8s.io/v1", "RuntimeClass", "runtimeclasses",
     "runtimeclass.node.k8s.io", false, true, false},
};

constexpr bool IsInOrder() {
  for (size_t i = 0; i < std::size(kKindRows); ++i) {
    if (static_cast<size_t>(kKindRows[i].kind) != i) return false;
  }
  return true;
}
static_assert(IsInOrder());

}  // namespace

std::span<const ObjectKindRow> ObjectKinds() { return kKindRows; }

const ObjectKindRow& RowOf(ObjectKind kind) { return kKindRows[static_cast<size_t>(kind)]; }

}  // namespace holdfast::agent
