// SPDX-License-Identifier: Apache-2.0
// PodOperations: what is under way for one pod. An operation runs on the lane of its kind, beside
// the pod's turns; its state and its end are facts of decide(). Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "agent/pod/decide/types.h"
#include "agent/pod/operate/lane_pool.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

// The lanes of the pool: a pod's turns, one per kind of operation, and what belongs to no pod.
enum class PodLane : uint8_t {
  kTurn,
  kVolumes,
  kSandbox,
  kPull,
  kStart,
  kStop,  // signal and kill
  kRemove,
  kRemoveSandbox,
  kCleanUp,
  kNode,
  kMounts,  // what others are asked to mount and unmount, and may take their time for
};
inline constexpr size_t kPodLanes = 11;

// `mounts`: the pod has volumes of the kinds that somebody else makes.
PodLane LaneOf(Action::Kind kind, bool mounts);

class PodOperations {
 public:
  // What an operation does. It may look at `cancelled` between its steps and end as kCancelled; who
  // and when of the end is filled in afterwards.
  using Work = std::function<OperationEnd(const std::atomic<bool>& cancelled)>;

  // `ended` is called after each end, on the operation's thread. `pool` and `clock` are borrowed.
  PodOperations(LanePool& pool, const Clock& clock, std::function<void()> ended);

  // There must be none of the same action under way. `mounts` as for LaneOf().
  void Begin(const Action& action, Work work, bool mounts = false);
  // One that is carried out elsewhere and holds no thread of ours: a hook. `start` begins it and
  // returns how it is given up; what it is given takes the end, from any thread, at most once, and
  // is not called from within.
  using Ended = std::function<void(OperationEnd)>;
  using GiveUp = std::function<void()>;
  void BeginElsewhere(const Action& action, const std::function<GiveUp(Ended)>& start);
  // One that has not begun, or is elsewhere, ends now; one that runs may look at its flag. None is success.
  void Cancel(const Action& action);
  // It takes too long: it is told, and no longer counts against its lane. False when there are too
  // many of these.
  bool GiveBack(const Action& action);

  // Each end is given once; an operation is always in one of the two.
  struct State {
    std::vector<OperationFact> under_way;  // in the order in which they were asked for
    std::vector<OperationEnd> ended;
  };
  State Take();

 private:
  struct Shared;
  LanePool& pool_;
  const std::shared_ptr<Shared> shared_;  // shared with what runs
};

}  // namespace holdfast::agent
