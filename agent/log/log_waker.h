// SPDX-License-Identifier: Apache-2.0
// LogWaker: tells followers when something changed in a log directory (inotify) or a time has come.
// One thread for all followers, started with the first. When a container of this user has taken all
// that the kernel gives it of inotify, followers that come then are called each second. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent {

class LogWaker {
 public:
  using Id = uint64_t;
  using Clock = std::chrono::steady_clock;

  LogWaker() = default;
  ~LogWaker();
  LogWaker(const LogWaker&) = delete;
  LogWaker& operator=(const LogWaker&) = delete;

  // `wake` is called on the waker's thread after each change below `directory`; it must not block
  // nor call back. Calls may come a little late and more often than needed.
  Result<Id> Watch(int directory, std::function<void()> wake);
  // One more call at `when`; a later call replaces an earlier one.
  void WakeAt(Id id, Clock::time_point when);
  // No call begins after it returned, except from within the waker's own thread.
  void Forget(Id id);

 private:
  struct Watched {
    int descriptor = -1;  // -1: none could be had
    std::function<void()> wake;
    std::optional<Clock::time_point> at;
  };

  Result<void> StartLocked();
  int AddLocked(int directory);
  void Run();
  int Inotify();
  void ReadInotify(int inotify);
  void WakeDue();
  int TimeoutMilliseconds();

  std::mutex mutex_;
  UniqueFd inotify_;
  sys::Wakeup nudge_;
  bool stopping_ = false;
  Id next_id_ = 1;
  std::map<Id, Watched> watched_;
  std::unordered_map<int, uint32_t> users_;  // inotify watch descriptor -> how many use it
  std::thread thread_;
};

}  // namespace holdfast::agent
