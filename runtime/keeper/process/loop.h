// SPDX-License-Identifier: Apache-2.0
// Loop: the small epoll loop of holder, launcher and logger. Single-threaded.
// Descriptors stay the caller's: Remove before closing one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime::keeper {

class Loop {
 public:
  using Handler = std::function<void(uint32_t events)>;

  static Result<Loop> Create();

  // Level-triggered. A handler may add and remove descriptors, its own too.
  Result<void> Add(int fd, uint32_t events, Handler handler);
  void Remove(int fd);

  // Waits up to `limit` (negative: for ever) and runs the handlers of what is ready.
  Result<void> RunOnce(std::chrono::milliseconds limit);

 private:
  struct Entry {
    Handler handler;
    uint32_t serial = 0;  // tells a reused fd number from the one epoll reported
  };
  UniqueFd epoll_;
  std::unordered_map<int, std::shared_ptr<Entry>> entries_;
  uint32_t next_serial_ = 1;
};

// Signals as a descriptor; they are blocked for the calling process from then on.
Result<UniqueFd> SignalFd(std::initializer_list<int> signals);
// The next signal waiting on it, 0 for none.
int ReadSignal(int signal_fd);

// Silent until it is set; read it with DrainTimer.
Result<UniqueFd> TimerFd();
// Fires every `period` from now on; zero: never.
Result<void> SetTimer(int timer_fd, std::chrono::milliseconds period);
void DrainTimer(int timer_fd);

}  // namespace holdfast::runtime::keeper
