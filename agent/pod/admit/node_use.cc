// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/node_use.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "agent/kube/pod_resources.h"

namespace holdfast::agent {
namespace {

// "" is what the list is sorted by first: all addresses.
std::string AddressOf(const corev1::ContainerPort& port) {
  return port.hostip() == "0.0.0.0" || port.hostip() == "::" ? std::string() : port.hostip();
}

void AddPorts(const corev1::Container& container, PodUse& use) {
  for (const corev1::ContainerPort& port : container.ports()) {
    if (port.hostport() == 0) continue;
    use.ports.push_back(
        {port.protocol().empty() ? "TCP" : port.protocol(), port.hostport(), AddressOf(port)});
  }
}

}  // namespace

PodUse UseOf(const corev1::Pod& pod) {
  PodUse use;
  for (const auto& [name, amount] : kube::PodRequests(pod.spec())) {
    use.requests[name] = name == "cpu" ? amount.Milli() : amount.Units();
  }
  use.requests["pods"] = 1;
  use.qos = kube::ComputeQosClass(pod.spec());
  use.critical = kube::IsCriticalPod(pod);
  if (pod.spec().has_priority()) use.priority = pod.spec().priority();
  for (const corev1::Container& container : pod.spec().containers()) AddPorts(container, use);
  for (const corev1::Container& container : pod.spec().initcontainers()) {
    if (kube::IsSidecar(container)) AddPorts(container, use);
  }
  return use;
}

void NodeUse::Add(const std::string& uid, PodUse use) {
  Remove(uid);
  for (const auto& [name, amount] : use.requests) sums_[name] += amount;
  ports_.insert(use.ports.begin(), use.ports.end());
  pods_[uid] = std::move(use);
}

void NodeUse::Remove(const std::string& uid) {
  const auto pod = pods_.find(uid);
  if (pod == pods_.end()) return;
  for (const auto& [name, amount] : pod->second.requests) sums_[name] -= amount;
  for (const NodePort& port : pod->second.ports) ports_.erase(ports_.find(port));
  pods_.erase(pod);
}

int64_t NodeUse::Of(const std::string& resource) const {
  const auto sum = sums_.find(resource);
  if (sum == sums_.end()) return 0;
  return static_cast<int64_t>(std::min<Wide>(sum->second, std::numeric_limits<int64_t>::max()));
}

bool NodeUse::IsTaken(const NodePort& port) const {
  if (!port.ip.empty()) {
    return ports_.contains(port) || ports_.contains({port.protocol, port.port, ""});
  }
  const auto first = ports_.lower_bound(port);
  return first != ports_.end() && first->protocol == port.protocol && first->port == port.port;
}

}  // namespace holdfast::agent
