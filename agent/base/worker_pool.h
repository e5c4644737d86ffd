// SPDX-License-Identifier: Apache-2.0
// WorkerPool: runs jobs on a bounded number of threads. Thread-safe.
//
// Threads are made when jobs wait and end when they had nothing to do for a while. The kernel may
// refuse one at any time: then the jobs wait for the threads that are there. Start() makes the
// first one, which stays, so that there always is one.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "holdfast/base/result.h"

namespace holdfast::agent {

struct WorkerPoolOptions {
  std::string name;  // of its threads; 15 bytes of it are shown
  size_t threads = 1;
  // Jobs that may wait in TryPost(). With 0 a job begins at once or not at all, and the pool needs
  // no Start().
  size_t queued = std::numeric_limits<size_t>::max();
};

class WorkerPool {
 public:
  explicit WorkerPool(WorkerPoolOptions options);
  // Drops what has not begun and waits for what has.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // The thread that stays. Before the first job.
  Result<void> Start();

  // Whatever the limit. After Finish() the job runs in the caller.
  void Post(std::function<void()> job);
  // Says why the job is not taken: kResourceExhausted (the limit is reached, or a thread was
  // refused and none is free), kUnavailable (after Finish()).
  Result<void> TryPost(std::function<void()> job);
  // Whether a job runs or waits.
  bool IsBusy() const;
  // Runs what waits, in the caller too, and returns when nothing runs any more. The caller first
  // makes long jobs end.
  void Finish();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the threads, which are detached
};

}  // namespace holdfast::agent
