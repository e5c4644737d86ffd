// SPDX-License-Identifier: Apache-2.0
// LanePool: threads that run jobs of several kinds, each kind with a bound of its own (its lane),
// so that one kind that is stuck in the kernel takes no room from the others. Threads are made when
// they are needed and end when idle for long. Thread-safe.
//
// A job that another job posts last thing is run by the same thread, without a hand-over, when its
// lane has room. A job that takes too long can be told to give its place back: it then no longer
// counts against its lane's bound.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent {

class LanePool {
 public:
  using Lane = size_t;
  using JobId = uint64_t;

  // When threads that are not needed end.
  struct Rest {
    std::chrono::milliseconds idle{5000};
    // A burst is over: called by the one that leaves a single thread behind. It may take its time.
    std::function<void()> calm = {};
  };

  // Lane i runs at most bounds[i] jobs at a time. Begins with one thread, which stays; fails when
  // not even that can be had. Where no further thread can be had the jobs wait for one that is
  // there.
  static Result<std::unique_ptr<LanePool>> Start(const std::vector<size_t>& bounds, Rest rest);
  static Result<std::unique_ptr<LanePool>> Start(const std::vector<size_t>& bounds) {
    return Start(bounds, Rest());
  }
  ~LanePool() { Stop(); }
  LanePool(const LanePool&) = delete;
  LanePool& operator=(const LanePool&) = delete;

  // Drops what has not begun, and whatever is posted from now on; waits for what runs, except for
  // what gave its place back.
  void Stop();
  // First come, first served within a lane.
  JobId Post(Lane lane, std::function<void()> job);
  // True: it had not begun and never will.
  bool Cancel(JobId id);
  // Of a running job. At most 64 at a time; false beyond, or when it does not run.
  bool GiveBack(JobId id);

 private:
  struct State;
  explicit LanePool(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Shared with the threads: one whose job gave its place back may outlive the pool.
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::agent
