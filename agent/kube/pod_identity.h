// SPDX-License-Identifier: Apache-2.0
// What makes a manifest a static pod of this node: UID, name, annotations (feature-map 1.1.7 to
// 1.1.9). Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "agent/kube/types_fwd.h"

namespace holdfast::agent::kube {

inline constexpr char kConfigHashAnnotation[] = "kubernetes.io/config.hash";
inline constexpr char kConfigSourceAnnotation[] = "kubernetes.io/config.source";
inline constexpr char kConfigSeenAnnotation[] = "kubernetes.io/config.seen";
inline constexpr char kConfigMirrorAnnotation[] = "kubernetes.io/config.mirror";

// FNV-1a with 128 bits, 32 lower-case hex digits.
std::string HashFnv128a(std::string_view bytes);

// The UID of a pod without one: a hash over the pod, the node and where it came from
// ("file:/etc/…/web.yaml" or "url:…"). The same pod at the same place has the same UID.
std::string PodUidHash(const corev1::Pod& pod, std::string_view node_name, std::string_view origin);

// Turns a Pod out of a manifest file into the static pod of this node: name with the node's name as
// suffix, namespace, nodeName, UID, hash and source annotations, toleration of every NoExecute
// taint. Call it on a pod with its defaults filled in.
void MakeStaticPod(corev1::Pod* pod, std::string_view node_name, std::string_view file);

}  // namespace holdfast::agent::kube
