// SPDX-License-Identifier: Apache-2.0
// What a static pod's image at the API server is, and what is to be done about it. Pure. Source: feature-map.md 1.2,
// control-plane.md 5.6.
#pragma once

#include <cstdint>
#include <string>

#include "agent/kube/types_fwd.h"

namespace holdfast::agent {

// Of one name.
struct MirrorFacts {
  const corev1::Pod* pod = nullptr;     // the static pod that is here
  const corev1::Pod* mirror = nullptr;  // the server's
  std::string node_uid;                 // "" while the Node is not there
  bool pod_is_gone = false;             // nobody is about to say that there is one
};

enum class MirrorStep : uint8_t {
  kNone,
  kCreate,
  kDelete,
  kLookLater,  // a mirror whose pod may not have been heard of yet
};

MirrorStep NextMirrorStep(const MirrorFacts& facts);

// The object that a node may create for `pod`, whose annotations say where it is from.
corev1::Pod MirrorOf(const corev1::Pod& pod, const std::string& node_name,
                     const std::string& node_uid);

}  // namespace holdfast::agent
