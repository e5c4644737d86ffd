// SPDX-License-Identifier: Apache-2.0
// NodeOffer: what this node is to a pod that wants a place on it. Plain values, made by agent/node.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/kube/pod_resources.h"
#include "k8s/core/v1/scheduling.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// What the node is short of.
struct NodePressure {
  bool memory = false;
  bool disk = false;
  bool pids = false;
};

struct NodeOffer {
  std::string name;
  std::map<std::string, std::string> labels;
  std::vector<corev1::Taint> taints;
  kube::ResourceList allocatable;  // "pods" among them
  // Beside the safe ones: names, or beginnings with '*' at the end (kubelet's
  // allowedUnsafeSysctls).
  std::vector<std::string> allowed_unsafe_sysctls;
  NodePressure pressure;      // as its conditions show it
  bool limited_swap = false;  // containers may have some (kube::MaySwap)
  std::string no_app_armor;   // why no AppArmor profile can be put on a container; "" when one can
};

}  // namespace holdfast::agent
