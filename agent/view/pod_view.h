// SPDX-License-Identifier: Apache-2.0
// PodView: what the pod table shows to the APIs. Immutable snapshots; thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/events/event.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

// Pods and events carry metadata.resource_version: decimal, growing by one table-wide counter.
using PodPtr = std::shared_ptr<const k8s::io::api::core::v1::Pod>;

struct PodChange {
  ChangeType type;
  PodPtr pod;  // spec as admitted (defaults filled in) and status as last computed
};

// Ends when destroyed; no callback runs after the destructor returned.
class Subscription {
 public:
  virtual ~Subscription() = default;
};

class PodView {
 public:
  virtual ~PodView() = default;

  // Sorted by namespace, then name.
  virtual std::vector<PodPtr> ListPods() const = 0;
  // Null when there is none.
  virtual PodPtr FindPod(const std::string& pod_namespace, const std::string& name) const = 0;
  virtual std::vector<EventPtr> ListEvents() const = 0;

  // Replays what is there as kAdded before it returns, then calls for each change, in order,
  // without a gap. The callback runs under the view's lock, on the thread that made the change: it
  // must not block nor call back into the view.
  virtual std::unique_ptr<Subscription> WatchPods(
      std::function<void(const PodChange&)> on_change) = 0;
  virtual std::unique_ptr<Subscription> WatchEvents(
      std::function<void(const EventChange&)> on_change) = 0;
};

}  // namespace holdfast::agent
