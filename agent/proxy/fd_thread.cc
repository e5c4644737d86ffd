// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/fd_thread.h"

#include <poll.h>

#include <cerrno>
#include <utility>

#include "holdfast/sys/thread.h"

namespace holdfast::agent {

Result<std::unique_ptr<FdThread>> FdThread::Start(int fd, std::function<bool()> readable) {
  ASSIGN_OR_RETURN(sys::Wakeup stop, sys::Wakeup::Make());
  std::unique_ptr<FdThread> made(new FdThread(fd, std::move(stop), std::move(readable)));
  ASSIGN_OR_RETURN(made->thread_, sys::StartThread("rules-watch", [t = made.get()] { t->Run(); }));
  return made;
}

FdThread::~FdThread() {
  stop_.Set();
  if (thread_.joinable()) thread_.join();
}

void FdThread::Run() {
  pollfd polls[] = {{fd_, POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
  for (;;) {
    if (::poll(polls, 2, -1) < 0 && errno != EINTR) return;
    if (polls[1].revents != 0) return;
    if (polls[0].revents != 0 && !readable_()) return;
  }
}

}  // namespace holdfast::agent
