// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/pod_turns.h"

#include <malloc.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/pod/operate/pod_operations.h"
#include "holdfast/sys/program_pages.h"

namespace holdfast::agent {
namespace {

LanePool::Lane LaneOf(PodLane lane) { return static_cast<LanePool::Lane>(lane); }

}  // namespace

PodTurns::PodTurns(boost::asio::io_context& io, const Clock& clock,
                   std::function<End(const PodUid&)> turn)
    : clock_(clock),
      turn_(std::move(turn)),
      timer_(io),
      last_alive_(clock.Boot().since_boot.count()) {}

Result<void> PodTurns::Start(std::vector<size_t> bounds) {
  const int timer = ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer < 0) return Error::FromErrno(errno, "timerfd_create");
  timer_.assign(timer);
  // What a burst of pods took is given back when it is over: free memory, for which the whole heap is looked at, and the
  // pages of the program that only starts and ends of pods use.
  LanePool::Rest rest{.calm = [] {
    ::malloc_trim(0);
    sys::UnmapProgramPages();
  }};
  ASSIGN_OR_RETURN(pool_, LanePool::Start(std::move(bounds), std::move(rest)));
  return {};
}

void PodTurns::Begin() {
  begun_ = true;
  {
    const std::lock_guard lock(mutex_);
    ArmTimer();
  }
  WaitForTimer();
}

void PodTurns::Stop() {
  if (pool_) pool_->Stop();
}

void PodTurns::Poke(const PodUid& uid) {
  if (!begun_) return;
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[uid];
  if (entry.busy) {
    entry.again = true;
  } else {
    Begin(uid, entry);
  }
}

void PodTurns::PokeRunning() {
  const std::lock_guard lock(mutex_);
  for (auto& [uid, entry] : entries_) entry.again = entry.again || entry.busy;
}

void PodTurns::Forget(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(uid);
  if (it == entries_.end()) return;
  Schedule(uid, it->second, std::nullopt);
  entries_.erase(it);
}

std::vector<PodTurns::Overdue> PodTurns::TakeOverdue(std::chrono::nanoseconds limit) {
  const BootTime now = clock_.Boot();
  std::vector<Overdue> overdue;
  const std::lock_guard lock(mutex_);
  for (auto& [uid, entry] : entries_) {
    if (!entry.busy || entry.overdue || now - entry.busy_since < limit) continue;
    entry.overdue = true;
    overdue.push_back({uid, !pool_->GiveBack(entry.job)});
  }
  return overdue;
}

void PodTurns::RunAt(BootTime at, std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  jobs_.emplace(at, std::move(job));
  if (begun_) ArmTimer();
}

void PodTurns::PostNode(std::function<void()> job) {
  pool_->Post(LaneOf(PodLane::kNode), std::move(job));
}

void PodTurns::Begin(const PodUid& uid, Entry& entry) {
  entry.busy = true;
  entry.overdue = false;
  entry.busy_since = clock_.Boot();
  Schedule(uid, entry, std::nullopt);
  entry.job = pool_->Post(LaneOf(PodLane::kTurn), [this, uid] { Run(uid); });
}

void PodTurns::Run(const PodUid& uid) {
  {
    const std::lock_guard lock(mutex_);
    entries_.at(uid).again = false;  // what it is poked for from now on it may not see
  }
  const End end = turn_(uid);
  if (end.gone) return;  // another pod of this UID may have its own by now
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.at(uid);
  entry.busy = false;
  if (entry.again) return Begin(uid, entry);
  Schedule(uid, entry, end.wake_at);
  if (end.wake_at) ArmTimer();
}

void PodTurns::Schedule(const PodUid& uid, Entry& entry, std::optional<BootTime> at) {
  if (entry.wake_at) wakes_.erase({*entry.wake_at, uid});
  entry.wake_at = at;
  if (at) wakes_.insert({*at, uid});
}

void PodTurns::ArmTimer() {
  std::optional<BootTime> next;
  if (!wakes_.empty()) next = wakes_.begin()->first;
  if (!jobs_.empty()) next = std::min(next.value_or(jobs_.begin()->first), jobs_.begin()->first);
  if (!next) return;
  // Zero would disarm it; a moment in the past fires at once.
  const auto ns = std::max<int64_t>(next->since_boot.count(), 1);
  itimerspec spec{};
  spec.it_value.tv_sec = ns / 1'000'000'000;
  spec.it_value.tv_nsec = ns % 1'000'000'000;
  (void)::timerfd_settime(timer_.native_handle(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void PodTurns::WaitForTimer() {
  timer_.async_wait(boost::asio::posix::stream_descriptor::wait_read, [this](const auto& error) {
    if (error) return;
    uint64_t expirations = 0;
    if (::read(timer_.native_handle(), &expirations, sizeof expirations) > 0) OnTimer();
    WaitForTimer();
  });
}

void PodTurns::OnTimer() {
  const BootTime now = clock_.Boot();
  last_alive_ = now.since_boot.count();
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    while (!wakes_.empty() && wakes_.begin()->first <= now) {
      const PodUid uid = wakes_.begin()->second;
      Begin(uid, entries_.at(uid));
    }
    while (!jobs_.empty() && jobs_.begin()->first <= now) {
      due.push_back(std::move(jobs_.begin()->second));
      jobs_.erase(jobs_.begin());
    }
    ArmTimer();
  }
  for (const std::function<void()>& job : due) job();
}

}  // namespace holdfast::agent
