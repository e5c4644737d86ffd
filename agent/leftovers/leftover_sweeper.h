// SPDX-License-Identifier: Apache-2.0
// LeftoverSweeper: tries again and again to remove what was set aside (sys/tree.h), on a thread of
// its own, so that nothing waits for it. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"

namespace holdfast::agent {

class LeftoverSweeper {
 public:
  // `asides`: the directories to look after. `log` is called from any thread.
  LeftoverSweeper(std::vector<std::string> asides, std::function<void(const std::string&)> log);
  ~LeftoverSweeper();
  LeftoverSweeper(const LeftoverSweeper&) = delete;
  LeftoverSweeper& operator=(const LeftoverSweeper&) = delete;

  // Begins, and ends with the object. Where no thread can be had, only Audit removes.
  Result<void> Start(std::chrono::milliseconds period = std::chrono::minutes(1));

  // What is there; with `repair` it is tried right now.
  std::vector<Leftover> Audit(bool repair);

 private:
  void Run(std::chrono::milliseconds period);
  void Sweep(const std::stop_token& stop);

  const std::vector<std::string> asides_;
  const std::function<void(const std::string&)> log_;
  std::mutex removing_;         // one at a time: two would be in each other's way
  std::set<std::string> told_;  // still there at the last try; guarded by removing_
  std::mutex waiting_;
  std::condition_variable_any wake_;
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace holdfast::agent
