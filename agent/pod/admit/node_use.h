// SPDX-License-Identifier: Apache-2.0
// NodeUse: what the pods that have a place on the node take of it, as running totals: a further pod
// costs the same however many there are. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "holdfast/model/container_spec.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// A port of the node itself. `ip` is "" for every address.
struct NodePort {
  std::string protocol;
  int32_t port = 0;
  std::string ip;
  auto operator<=>(const NodePort&) const = default;
};

// What one pod takes: cpu in thousandths, "pods" 1, everything else in its unit. And what says who
// gives way to whom.
struct PodUse {
  std::map<std::string, int64_t> requests;
  std::vector<NodePort> ports;
  model::QosClass qos = model::QosClass::kBestEffort;
  bool critical = false;
  std::optional<int32_t> priority = {};
};
PodUse UseOf(const corev1::Pod& pod);

class NodeUse {
 public:
  // Replaces what that pod took before.
  void Add(const std::string& uid, PodUse use);
  // An unknown pod is none.
  void Remove(const std::string& uid);
  bool Has(const std::string& uid) const { return pods_.contains(uid); }
  const std::map<std::string, PodUse>& pods() const { return pods_; }  // by UID

  // Of all pods; never above what an int64_t holds.
  int64_t Of(const std::string& resource) const;
  // Whether somebody has the port, on the same address or on all.
  bool IsTaken(const NodePort& port) const;

 private:
  __extension__ using Wide = __int128;  // a pod may ask for 2^63

  std::map<std::string, PodUse> pods_;
  std::map<std::string, Wide> sums_;
  std::multiset<NodePort> ports_;
};

}  // namespace holdfast::agent
