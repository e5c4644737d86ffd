// SPDX-License-Identifier: Apache-2.0
// What a pod must be beyond what an API server asks, to be run by this node from a manifest file.
// Pure.
#pragma once

#include <string_view>

#include "agent/kube/field_error.h"
#include "agent/kube/types_fwd.h"

namespace holdfast::agent {

// Volume mounts of one container. A start hands the launcher a descriptor for each, with those of
// image, log and namespaces at most sys::kMaxPacketFds.
inline constexpr int kMostVolumeMounts = 200;

// `pod` has its defaults and the name that the file gives it.
kube::FieldErrors CheckPodOfNode(const corev1::Pod& pod, std::string_view node_name);

// Takes away what an API server does not take from a user either when an object is created: that it
// is being deleted.
void ClearSystemFields(corev1::Pod* pod);

}  // namespace holdfast::agent
