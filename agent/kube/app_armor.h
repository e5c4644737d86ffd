// SPDX-License-Identifier: Apache-2.0
// Which AppArmor profile a container of a pod names. Pure. Source: kubelet 1.36, pkg/security/apparmor.
#pragma once

#include <optional>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {

namespace corev1 = ::k8s::io::api::core::v1;

inline constexpr char kAppArmorAnnotation[] = "container.apparmor.security.beta.kubernetes.io/";

// The container's own, else that of the old annotation, else the pod's. An annotation that makes no sense is none.
std::optional<corev1::AppArmorProfile> AppArmorProfileOf(const corev1::Pod& pod,
                                                         const corev1::Container& container);

}  // namespace holdfast::agent::kube
