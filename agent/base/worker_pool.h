// SPDX-License-Identifier: Apache-2.0
// WorkerPool: runs jobs on a bounded number of threads. Thread-safe.
//
// Threads are made when jobs wait and end when they had nothing to do for a while. The kernel may
// refuse one at any time: then the jobs wait for the threads that are there. Start() makes the
// first one, which stays, so that there always is one.
//
// A job that is stuck in the kernel (a dead network file system) can be written off: its thread
// then no longer counts, so that the others go on.
#pragma once

#include <cstddef>
#include <cstdint>
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
  // Drops what has not begun and waits for what has, except for what was written off.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // The thread that stays. Before the first job.
  Result<void> Start();

  using JobId = uint64_t;
  // Whatever the limit. After Finish() the job runs in the caller.
  JobId Post(std::function<void()> job);
  // Says why the job is not taken: kResourceExhausted (the limit is reached, or a thread was
  // refused and none is free), kUnavailable (after Finish()).
  Result<void> TryPost(std::function<void()> job);
  // Runs what waits, in the caller too, and returns when nothing runs any more. The caller first
  // makes long jobs end.
  void Finish();

  // Answers whether jobs wait for a thread; may outlive the pool.
  std::function<bool()> BusyCheck() const;
  // The running job no longer counts against the bound. At most 64 at a time; false beyond.
  bool WriteOff(JobId id);

 private:
  struct State;
  std::shared_ptr<State>
      state_;  // shared with the threads: one that was written off may outlive us
};

}  // namespace holdfast::agent
