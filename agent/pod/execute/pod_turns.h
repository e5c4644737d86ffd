// SPDX-License-Identifier: Apache-2.0
// PodTurns: when each pod has its turn: soon after it was poked and when it asked to be woken, one
// at a time per pod, on the lanes that the pods' operations share. What a turn does is its owner's.
//
// Turns run on the pool's threads: what pokes a pod posts its turn itself, so an operation's end,
// the turn after it and the next operation often share a thread. The io_context runs the timer and
// what RunAt() was given. Thread-safe; the owner is never called with the mutex held, so it may
// call in with one of its own.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "agent/pod/operate/lane_pool.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"

namespace holdfast::agent {

class PodTurns {
 public:
  struct End {
    bool gone = false;  // it has no further turn; Forget() was said
    std::optional<BootTime> wake_at = {};
  };

  PodTurns(boost::asio::io_context& io, const Clock& clock, std::function<End(const PodUid&)> turn);
  ~PodTurns() { Stop(); }

  // Has threads and a timer from now on. `bounds`: of the lanes, by PodLane.
  Result<void> Start(std::vector<size_t> bounds);
  // The io_context runs: until now no poke was heard.
  void Begin();
  bool HasBegun() const { return begun_; }
  // Waits for what runs, except for turns that are overdue. The io_context no longer runs.
  void Stop();

  // The pod has a turn, or another one after that which it has.
  void Poke(const PodUid& uid);
  // Those that have a turn now have another one.
  void PokeRunning();
  // Within its last turn.
  void Forget(const PodUid& uid);
  struct Overdue {
    PodUid uid;
    bool holds_place = false;  // there are too many for it not to count against the lane's bound
  };
  // Turns that have taken longer than `limit`, each once.
  std::vector<Overdue> TakeOverdue(std::chrono::nanoseconds limit);

  // Once, on the io_context's thread.
  void RunAt(BootTime at, std::function<void()> job);
  // What is the node's and not a pod's, on a lane of its own.
  void PostNode(std::function<void()> job);
  LanePool& pool() { return *pool_; }  // after Start()
  // When the timer's thread turned last.
  BootTime last_alive() const { return BootTime{std::chrono::nanoseconds(last_alive_)}; }

 private:
  struct Entry {
    bool busy = false;
    bool again = false;
    bool overdue = false;
    BootTime busy_since;
    LanePool::JobId job = 0;
    std::optional<BootTime> wake_at;
  };

  // With the mutex held.
  void Begin(const PodUid& uid, Entry& entry);
  void Schedule(const PodUid& uid, Entry& entry, std::optional<BootTime> at);
  void ArmTimer();
  // Without.
  void Run(const PodUid& uid);
  void WaitForTimer();
  void OnTimer();

  const Clock& clock_;
  const std::function<End(const PodUid&)> turn_;
  boost::asio::posix::stream_descriptor timer_;  // timerfd on CLOCK_BOOTTIME
  std::atomic<bool> begun_{false};
  std::atomic<int64_t> last_alive_;

  std::mutex mutex_;  // what follows
  std::map<PodUid, Entry> entries_;
  std::set<std::pair<BootTime, PodUid>> wakes_;
  std::multimap<BootTime, std::function<void()>> jobs_;

  std::unique_ptr<LanePool> pool_;  // last: its threads use all of the above
};

}  // namespace holdfast::agent
