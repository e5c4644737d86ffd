// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/pod_operations.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace holdfast::agent {

struct PodOperations::Shared {
  struct UnderWay {
    OperationFact fact;
    LanePool::JobId job = 0;
    std::shared_ptr<std::atomic<bool>> cancelled;
    GiveUp give_up;  // of one that is elsewhere
  };

  Shared(const Clock& c, std::function<void()> e) : clock(c), ended(std::move(e)) {}

  const Clock& clock;
  const std::function<void()> ended;
  mutable std::mutex mutex;  // what follows
  std::vector<UnderWay> under_way;
  std::vector<OperationEnd> ends;

  std::vector<UnderWay>::iterator Find(const Action& action) {
    return std::ranges::find_if(under_way,
                                [&](const UnderWay& one) { return one.fact.action == action; });
  }

  void NoteBegun(const Action& action) {
    const std::lock_guard lock(mutex);
    OperationFact& fact = Find(action)->fact;
    fact.begun = true;
    fact.since = clock.Boot();
  }

  void End(const Action& action, OperationEnd end) {
    end.action = action;
    end.wall = clock.Wall();
    end.boot = clock.Boot();
    {
      const std::lock_guard lock(mutex);
      const auto one = Find(action);
      if (one == under_way.end()) return;  // it was given up just now
      under_way.erase(one);
      ends.push_back(std::move(end));
    }
    ended();
  }
};

PodLane LaneOf(Action::Kind kind, bool mounts) {
  switch (kind) {
    case Action::Kind::kEnsureVolumes:
      return mounts ? PodLane::kMounts : PodLane::kVolumes;
    case Action::Kind::kEnsureSandbox:
    case Action::Kind::kResize:
      return PodLane::kSandbox;
    case Action::Kind::kPull:
      return PodLane::kPull;
    case Action::Kind::kStart:
      return mounts ? PodLane::kMounts : PodLane::kStart;
    case Action::Kind::kSignal:
    case Action::Kind::kKill:
      return PodLane::kStop;
    case Action::Kind::kRemove:
      return PodLane::kRemove;
    case Action::Kind::kRemoveSandbox:
      return PodLane::kRemoveSandbox;
    case Action::Kind::kReleaseVolumes:
    case Action::Kind::kCleanUp:
      return mounts ? PodLane::kMounts : PodLane::kCleanUp;
    case Action::Kind::kPostStart:
    case Action::Kind::kPreStop:
      break;  // elsewhere
  }
  return PodLane::kNode;
}

PodOperations::PodOperations(LanePool& pool, const Clock& clock, std::function<void()> ended)
    : pool_(pool), shared_(std::make_shared<Shared>(clock, std::move(ended))) {}

void PodOperations::Begin(const Action& action, Work work, bool mounts) {
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  // Held until the job's number is known: it may end before Post returns.
  const std::lock_guard lock(shared_->mutex);
  Shared::UnderWay& one = shared_->under_way.emplace_back();
  one.fact = {action, false, shared_->clock.Boot(), false};
  one.cancelled = cancelled;
  one.job = pool_.Post(static_cast<LanePool::Lane>(LaneOf(action.kind, mounts)),
                       [shared = shared_, action, cancelled, work = std::move(work)] {
                         shared->NoteBegun(action);
                         shared->End(action, work(*cancelled));
                       });
}

void PodOperations::BeginElsewhere(const Action& action,
                                   const std::function<GiveUp(Ended)>& start) {
  {
    const std::lock_guard lock(shared_->mutex);
    Shared::UnderWay& one = shared_->under_way.emplace_back();
    one.fact = {action, true, shared_->clock.Boot(), false};
    one.cancelled = std::make_shared<std::atomic<bool>>(false);
  }
  GiveUp give_up =
      start([shared = shared_, action](OperationEnd end) { shared->End(action, std::move(end)); });
  const std::lock_guard lock(shared_->mutex);
  const auto one = shared_->Find(action);
  if (one != shared_->under_way.end()) one->give_up = std::move(give_up);
}

void PodOperations::Cancel(const Action& action) {
  LanePool::JobId job = 0;
  GiveUp give_up;
  {
    const std::lock_guard lock(shared_->mutex);
    const auto one = shared_->Find(action);
    if (one == shared_->under_way.end()) return;
    *one->cancelled = true;
    job = one->job;
    give_up = one->give_up;
  }
  if (give_up) give_up();
  if (!give_up && !pool_.Cancel(job)) return;
  OperationEnd end;
  end.how = OperationEnd::How::kCancelled;
  shared_->End(action, std::move(end));
}

bool PodOperations::GiveBack(const Action& action) {
  const std::lock_guard lock(shared_->mutex);
  const auto one = shared_->Find(action);
  if (one == shared_->under_way.end()) return true;
  one->fact.overdue = true;
  return pool_.GiveBack(one->job);
}

PodOperations::State PodOperations::Take() {
  State state;
  const std::lock_guard lock(shared_->mutex);
  for (const Shared::UnderWay& one : shared_->under_way) state.under_way.push_back(one.fact);
  state.ended = std::exchange(shared_->ends, {});
  return state;
}

}  // namespace holdfast::agent
