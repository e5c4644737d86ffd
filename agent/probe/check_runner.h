// SPDX-License-Identifier: Apache-2.0
// CheckRunner: carries out checks, thousands at a time, on one thread that waits for nothing: sockets
// and timers of one io_context. A program in a container is started (and killed, when it is given
// up) on a few further threads, since the runtime's calls block; while it runs it holds none.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "agent/base/worker_pool.h"
#include "agent/probe/check.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"

namespace holdfast::agent {

// A check that is under way. Destroyed, on the runner's thread: given up, and nobody is told.
class RunningCheck {
 public:
  virtual ~RunningCheck() = default;
};

class CheckRunner {
 public:
  // `runtime` is borrowed.
  static Result<std::unique_ptr<CheckRunner>> Start(ContainerRuntime& runtime);
  // What is still under way is given up; no call of anybody's follows.
  ~CheckRunner();
  CheckRunner(const CheckRunner&) = delete;
  CheckRunner& operator=(const CheckRunner&) = delete;

  using Done = std::function<void(CheckOutcome)>;
  // On the runner's thread only. `done` is called there, once, never from within. No limit: until it
  // ends by itself.
  std::unique_ptr<RunningCheck> Begin(const Check& check,
                                      std::optional<std::chrono::nanoseconds> limit, Done done);

  // From any thread: `job` runs on the runner's.
  void Post(std::function<void()> job);
  boost::asio::io_context& io() { return io_; }
  // Ends the thread: nothing runs any more when it returns. Idempotent.
  void Stop();

 private:
  explicit CheckRunner(ContainerRuntime& runtime);

  ContainerRuntime& runtime_;
  WorkerPool starters_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace holdfast::agent
