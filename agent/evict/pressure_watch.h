// SPDX-License-Identifier: Apache-2.0
// PressureWatch: looks every ten seconds what the node is short of. Room is made where that costs nobody anything; when it
// is not enough, one pod goes, and the next not before it has ended. Critical pods, those of files among them, stay.
// Thread-safe. Source: kubelet 1.36, pkg/kubelet/eviction (synchronize); feature-map 1.11.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/base/periodic_thread.h"
#include "agent/evict/candidates.h"
#include "agent/evict/shortages.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// Borrowed, except what is a value. The functions are called on the watch's thread.
struct PressureWatchParts {
  EvictionConfig config;
  const Clock& clock;
  PodView& pods;
  std::function<NodeRooms()> rooms;
  // What pods have, as it is now; with what they have on the disk counted anew.
  std::function<Result<std::shared_ptr<const NodeSample>>(bool disk)> sample;
  // Each time it looks: whether memory is short.
  std::function<void(bool)> memory_is_short;
  // Removes what nobody needs from the disk.
  std::function<void()> make_room;
  std::function<void(const PodUid&, const Eviction&)> evict;
  std::function<void(const EventNote&)> tell;  // of the node
  std::function<void(const std::string& line)> log;
};

class PressureWatch {
 public:
  static constexpr std::chrono::seconds kPeriod{10};    // a kubelet's evictionMonitoringPeriod
  static constexpr std::chrono::seconds kPoll{1};       // while a pod ends that was evicted
  static constexpr std::chrono::seconds kPatience{30};  // and for how long

  explicit PressureWatch(PressureWatchParts parts)
      : parts_(std::move(parts)), shortages_(parts_.config) {}

  Result<void> Start();

  // What the thread does each time; after how long again. One thread at a time.
  std::chrono::milliseconds Look();

 private:
  struct Victim {
    std::string uid;
    BootTime since;
  };
  bool WaitsForVictim(const std::vector<PodPtr>& pods);
  bool MakesEnoughRoom(PressureSignal signal);
  bool EvictOne(const std::vector<PodPtr>& pods, const Shortage& shortage);
  std::chrono::seconds GraceFor(const PodPtr& pod, const Shortage& shortage) const;

  const PressureWatchParts parts_;
  Shortages shortages_;
  std::optional<Victim> victim_;
  std::set<std::string> evicted_;  // UIDs of pods that have not ended yet
  PeriodicThread thread_;
};

}  // namespace holdfast::agent
