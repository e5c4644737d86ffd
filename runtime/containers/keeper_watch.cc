// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/keeper_watch.h"

#include <poll.h>

#include <utility>

#include "holdfast/sys/thread.h"

namespace holdfast::runtime {
namespace {

constexpr int kUntilTheHolderEnds = -1;
constexpr int kRevivalPauseMillis = 1000;

}  // namespace

Result<std::unique_ptr<KeeperWatch>> KeeperWatch::Start(PidFd holder, Revive revive) {
  ASSIGN_OR_RETURN(sys::Wakeup stop, sys::Wakeup::Make());
  auto watch = std::unique_ptr<KeeperWatch>(
      new KeeperWatch(std::move(stop), std::move(holder), std::move(revive)));
  ASSIGN_OR_RETURN(watch->thread_,
                   sys::StartThread("keeper-watch", [raw = watch.get()] { raw->Run(); }));
  return watch;
}

KeeperWatch::KeeperWatch(sys::Wakeup stop, PidFd holder, Revive revive)
    : stop_(std::move(stop)), holder_(std::move(holder)), revive_(std::move(revive)) {}

KeeperWatch::~KeeperWatch() {
  stop_.Set();
  if (thread_.joinable()) thread_.join();
}

// Or until the holder ends, where there is one; false then.
bool KeeperWatch::WaitForStop(int milliseconds) {
  pollfd fds[] = {{stop_.fd(), POLLIN, 0}, {holder_.get(), POLLIN, 0}};  // poll passes over -1
  while (::poll(fds, 2, milliseconds) < 0) continue;                     // EINTR
  return fds[0].revents != 0;
}

void KeeperWatch::Run() {
  while (!WaitForStop(holder_ ? kUntilTheHolderEnds : 0)) {
    holder_ = revive_();
    if (!holder_ && WaitForStop(kRevivalPauseMillis)) return;
  }
}

}  // namespace holdfast::runtime
