// SPDX-License-Identifier: Apache-2.0
// PeriodicThread: a thread of its own for work that is done again and again. Its end waits for work that is under way, so
// it is the last member of whoever the work is of. Start and end: one thread at a time.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "holdfast/base/result.h"

namespace holdfast::agent {

class PeriodicThread {
 public:
  // Done once; says after how long again. The token tells that nobody waits for it any more.
  using Work = std::function<std::chrono::milliseconds(std::stop_token)>;

  PeriodicThread() = default;
  ~PeriodicThread();
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

  // Once. `name`: of the thread, 15 bytes.
  Result<void> Start(const std::string& name, std::chrono::milliseconds first, Work work);

 private:
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace holdfast::agent
