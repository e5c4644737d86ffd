// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::keeper {
namespace {

uint64_t Tag(int fd, uint32_t serial) {
  return static_cast<uint64_t>(serial) << 32 | static_cast<uint32_t>(fd);
}

}  // namespace

Result<Loop> Loop::Create() {
  Loop loop;
  loop.epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!loop.epoll_) return Error::FromErrno(errno, "epoll_create1");
  return loop;
}

Result<void> Loop::Add(int fd, uint32_t events, Handler handler) {
  auto entry = std::make_shared<Entry>(Entry{std::move(handler), next_serial_++});
  epoll_event event{};
  event.events = events;
  event.data.u64 = Tag(fd, entry->serial);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return Error::FromErrno(errno, StrCat("epoll_ctl add ", fd));
  }
  entries_[fd] = std::move(entry);
  return {};
}

void Loop::Remove(int fd) {
  if (entries_.erase(fd) == 0) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Result<void> Loop::RunOnce(std::chrono::milliseconds limit) {
  std::array<epoll_event, 64> events;
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                             limit.count() < 0 ? -1 : static_cast<int>(limit.count()));
  if (n < 0) {
    if (errno == EINTR) return {};
    return Error::FromErrno(errno, "epoll_wait");
  }
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    const auto it = entries_.find(static_cast<int>(event.data.u64 & 0xffffffffu));
    if (it == entries_.end() || it->second->serial != event.data.u64 >> 32) continue;
    const std::shared_ptr<Entry> entry = it->second;  // the handler may remove itself
    entry->handler(event.events);
  }
  return {};
}

Result<UniqueFd> SignalFd(std::initializer_list<int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (int s : signals) ::sigaddset(&set, s);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return Error::FromErrno(errno, "sigprocmask");
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return Error::FromErrno(errno, "signalfd");
  return fd;
}

int ReadSignal(int signal_fd) {
  signalfd_siginfo info{};
  if (::read(signal_fd, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return 0;
  return static_cast<int>(info.ssi_signo);
}

Result<UniqueFd> TimerFd() {
  UniqueFd fd(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!fd) return Error::FromErrno(errno, "timerfd_create");
  return fd;
}

Result<void> SetTimer(int timer_fd, std::chrono::milliseconds period) {
  itimerspec spec{};
  spec.it_interval.tv_sec = period.count() / 1000;
  spec.it_interval.tv_nsec = period.count() % 1000 * 1000000;
  spec.it_value = spec.it_interval;
  if (::timerfd_settime(timer_fd, 0, &spec, nullptr) != 0) {
    return Error::FromErrno(errno, "timerfd_settime");
  }
  return {};
}

void DrainTimer(int timer_fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(timer_fd, &count, sizeof count);
}

}  // namespace holdfast::runtime::keeper
