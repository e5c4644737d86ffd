// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/keeper_watch.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "holdfast/sys/thread.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kUntilTheHolderEnds{-1};
constexpr milliseconds kStartPause{1000};
constexpr milliseconds kFirstLook{10};  // a holder answers after some 30 ms

}  // namespace

Result<std::unique_ptr<KeeperWatch>> KeeperWatch::Start(PidFd current, Holder holder) {
  ASSIGN_OR_RETURN(sys::Wakeup stop, sys::Wakeup::Make());
  auto watch = std::unique_ptr<KeeperWatch>(
      new KeeperWatch(std::move(stop), std::move(current), std::move(holder)));
  ASSIGN_OR_RETURN(watch->thread_,
                   sys::StartThread("keeper-watch", [raw = watch.get()] { raw->Run(); }));
  return watch;
}

KeeperWatch::KeeperWatch(sys::Wakeup stop, PidFd current, Holder holder)
    : stop_(std::move(stop)), current_(std::move(current)), holder_(std::move(holder)) {}

KeeperWatch::~KeeperWatch() {
  stop_.Set();
  if (thread_.joinable()) thread_.join();
}

// Or until the holder ends, where there is one; false then.
bool KeeperWatch::WaitForStop(milliseconds limit) {
  pollfd fds[] = {{stop_.fd(), POLLIN, 0}, {current_.get(), POLLIN, 0}};  // poll passes over -1
  while (::poll(fds, 2, static_cast<int>(limit.count())) < 0) continue;   // EINTR
  return fds[0].revents != 0;
}

void KeeperWatch::Run() {
  if (!current_) BringBack();
  while (!WaitForStop(kUntilTheHolderEnds)) BringBack();
}

// Or gives up, for the stop of all.
void KeeperWatch::BringBack() {
  auto next_start = steady_clock::now();
  for (milliseconds pause = kFirstLook;; pause = std::min(2 * pause, kStartPause)) {
    current_ = holder_.find();
    if (current_) return;
    if (steady_clock::now() >= next_start) {
      holder_.start();
      next_start = steady_clock::now() + kStartPause;
      pause = kFirstLook;
    }
    if (WaitForStop(pause)) return;
  }
}

}  // namespace holdfast::runtime
