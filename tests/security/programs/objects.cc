// SPDX-License-Identifier: Apache-2.0
// Objects of the kernel, as many as it gives. Of some the kernel counts how many a user has on the whole machine
// (inotify, epoll, timers), of others only their memory counts.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <map>

#include "attacker.h"

namespace attacker {

namespace {

long Inotify(long) { return ::inotify_init1(IN_CLOEXEC); }

long Socket(long) { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

long Timer(long) {
  timer_t timer{};
  sigevent event{};
  event.sigev_notify = SIGEV_NONE;
  return ::timer_create(CLOCK_MONOTONIC, &event, &timer);
}

// A name that is not there; the kernel remembers that.
long Name(long number) {
  struct stat st{};
  (void)::stat(("/tmp/no-such-name-" + std::to_string(number)).c_str(), &st);
  return 0;
}

// Each of some thousand descriptors in one set after the other.
long EpollPlace(long number) {
  constexpr long kEach = 2000;
  static int events[kEach];
  static int set = -1;
  const long at = number % kEach;
  if (number < kEach && (events[at] = ::eventfd(0, EFD_CLOEXEC)) < 0) return -1;
  if (at == 0 && (set = ::epoll_create1(EPOLL_CLOEXEC)) < 0) return -1;
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(set, EPOLL_CTL_ADD, events[at], &event);
}

}  // namespace

int Objects(const Words& words) {
  const std::map<std::string, long (*)(long)> kinds = {{"inotify", Inotify},
                                                       {"socket", Socket},
                                                       {"timer", Timer},
                                                       {"name", Name},
                                                       {"epoll", EpollPlace}};
  if (words.size() != 2 || !kinds.contains(words[0])) return 2;
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
  const long most = std::stol(words[1]);
  long made = 0;
  std::string stopped = "all";
  for (; made < most; ++made) {
    if (kinds.at(words[0])(made) >= 0) continue;
    // A process has no more; another has, and this one keeps its own.
    if (errno == EMFILE && words[0] == "socket" && ::fork() == 0) {
      ::close_range(3, ~0U, 0);
      --made;
      continue;
    }
    stopped = Outcome(-1);
    break;
  }
  std::cout << "done " << made << ' ' << stopped << std::endl;
  for (;;) ::pause();
}

}  // namespace attacker
