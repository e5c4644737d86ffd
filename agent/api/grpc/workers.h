// SPDX-License-Identifier: Apache-2.0
// Workers: a bounded set of threads for work that blocks, so that gRPC's threads never do.
// Threads start on demand and stay. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::agent::api {

class Workers {
 public:
  // At most `threads` tasks run and `queued` wait; with queued 0 a task runs at once or not at all.
  Workers(std::string name, size_t threads, size_t queued);
  ~Workers();  // Stop()
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // False: the limit is reached or Stop() was called; the task is not run.
  [[nodiscard]] bool Post(std::function<void()> task);
  // Beyond the limit too; for tidying up that must happen. After Stop() it runs in the caller.
  void PostAlways(std::function<void()> task);
  // Runs what is queued, then joins. The caller first makes long tasks end.
  void Stop();

 private:
  void Run();
  void StartThreadIfNeeded();  // mutex_ held

  const std::string name_;
  const size_t max_threads_;
  const size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  size_t running_ = 0;
  bool stopping_ = false;
};

}  // namespace holdfast::agent::api
