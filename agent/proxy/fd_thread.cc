// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/fd_thread.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent {

Result<std::unique_ptr<FdThread>> FdThread::Start(int fd, std::function<bool()> readable) {
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return Error::FromErrno(errno, "eventfd");
  std::unique_ptr<FdThread> made(new FdThread(fd, std::move(stop), std::move(readable)));
  try {
    made->thread_ = std::thread([t = made.get()] { t->Run(); });
  } catch (const std::system_error& error) {
    return Error(Code::kResourceExhausted, StrCat("thread: ", error.what()));
  }
  return made;
}

FdThread::~FdThread() {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

void FdThread::Run() {
  pollfd polls[] = {{fd_, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  for (;;) {
    if (::poll(polls, 2, -1) < 0 && errno != EINTR) return;
    if (polls[1].revents != 0) return;
    if (polls[0].revents != 0 && !readable_()) return;
  }
}

}  // namespace holdfast::agent
