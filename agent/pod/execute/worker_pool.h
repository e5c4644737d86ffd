// SPDX-License-Identifier: Apache-2.0
// WorkerPool: runs jobs on a bounded number of threads. Threads are made when needed and end when
// idle for a while. A job that is stuck in the kernel (a dead network file system) can be written
// off: its thread then no longer counts, so that the others go on. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace holdfast::agent {

class WorkerPool {
 public:
  explicit WorkerPool(size_t threads);
  // Drops what has not begun and waits for what has, except for what was written off.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  using JobId = uint64_t;
  JobId Post(std::function<void()> job);
  // Answers whether jobs wait for a thread; may outlive the pool.
  std::function<bool()> BusyCheck() const;
  // The running job no longer counts against the bound. At most 64 at a time; false beyond.
  bool WriteOff(JobId id);

 private:
  struct State;
  static void Spawn(const std::shared_ptr<State>& state);
  static void Work(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace holdfast::agent
