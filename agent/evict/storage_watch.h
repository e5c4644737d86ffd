// SPDX-License-Identifier: Apache-2.0
// StorageWatch: looks every ten seconds whether a pod has written more than it may, and has it evicted. Only pods with
// limits are counted, each of their trees once a minute at most and the more seldom the longer that takes, on a thread
// of its own with the least priority: a tree that is made to hurt costs its own pod's counting only.
// Thread-safe. Source: kubelet 1.36 (monitoring every 10 s, volumes counted each minute); feature-map 1.11.11, 1.11.13.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

#include "agent/base/periodic_thread.h"
#include "agent/events/event.h"
#include "agent/evict/storage_limits.h"
#include "agent/pod/decide/types.h"
#include "agent/pod/state/paths.h"
#include "agent/stats/tree_sizes.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/model/instance.h"

namespace holdfast::agent {

// Borrowed, except what is a value. The functions are called on the watch's thread.
struct StorageWatchParts {
  const model::Instance& instance;
  const PodView& pods;
  // The pod is to end; said again as long as it does not.
  std::function<void(const PodUid&, const Eviction&)> evict;
  std::function<void(const k8s::io::api::core::v1::Pod&, const EventNote&)> tell;
  TreeSizesOptions trees{.lasts = std::chrono::seconds(60), .most_inodes = 1'000'000};
};

class StorageWatch {
 public:
  static constexpr std::chrono::seconds kPeriod{10};  // a kubelet's evictionMonitoringPeriod

  explicit StorageWatch(StorageWatchParts parts) : parts_(std::move(parts)), trees_(parts_.trees) {}

  Result<void> Start(std::chrono::milliseconds period = kPeriod);

  // What the thread does each time. One thread at a time.
  void Look(const std::stop_token& stop = {});

 private:
  using Pod = k8s::io::api::core::v1::Pod;
  struct Counted {
    StorageUse use;
    bool whole = true;  // no tree was too large to be counted
  };

  Counted Count(const Pod& pod);
  void Add(const std::string& path, uint64_t& bytes, Counted& counted);
  void Judge(const Pod& pod);
  void TellOnce(const Pod& pod, const std::string& message);

  const StorageWatchParts parts_;
  TreeSizes trees_;
  std::map<std::string, std::set<std::string>> told_;  // messages by UID
  PeriodicThread thread_;
};

}  // namespace holdfast::agent
