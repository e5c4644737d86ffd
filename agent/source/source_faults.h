// SPDX-License-Identifier: Apache-2.0
// SourceFaults: tells people what is wrong in the manifest directory: in the log and as events,
// once per version of a file, and as a condition of the node for as long as it lasts. Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "agent/source/pod_source.h"
#include "holdfast/base/clock.h"

namespace k8s::io::api::core::v1 {
class NodeCondition;
}

namespace holdfast::agent {

// A warning about one object: the node, or what still is as the last good version of a file has it.
struct FaultEvent {
  std::string kind;  // "Node", "Pod", "Service"
  std::string object_namespace;
  std::string name;
  std::string uid;      // "" where the object has none of its own
  std::string message;  // the first fault, how many more there are, what to do
};

struct SourceFaultsCallbacks {
  std::function<void(const std::string& line)> warn;  // "web.yaml:7:5: …"
  std::function<void(const std::string& line)> info;  // a file is in order again
  std::function<void(const FaultEvent& event)> event;
};

class SourceFaults {
 public:
  SourceFaults(std::string node_name, WallTime started, SourceFaultsCallbacks callbacks)
      : node_name_(std::move(node_name)), since_(started), callbacks_(std::move(callbacks)) {}

  // Tells what is new in `snapshot`. Snapshots may come twice, not in another order.
  void Look(const PodSnapshot& snapshot, WallTime now);

  // "ManifestProblem": True with all that is wrong now, else False.
  k8s::io::api::core::v1::NodeCondition Condition(WallTime now) const;

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // origin, content, message

  void Warn(const SourceError& fault) const;
  void SendEvents(const PodSnapshot& snapshot, const SourceError& fault) const;

  const std::string node_name_;
  mutable std::mutex mutex_;  // guards what follows; held while telling, so that the order is right
  uint64_t generation_ = 0;
  std::set<Key> told_;
  std::string standing_;  // the condition's message
  WallTime since_;        // the condition's last change
  const SourceFaultsCallbacks callbacks_;
};

}  // namespace holdfast::agent
