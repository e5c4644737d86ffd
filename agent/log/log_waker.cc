// SPDX-License-Identifier: Apache-2.0
#include "agent/log/log_waker.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <unordered_set>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

constexpr uint32_t kEvents =
    IN_MODIFY | IN_CREATE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF;
constexpr std::chrono::seconds kUnwatchedPeriod{1};

}  // namespace

LogWaker::~LogWaker() {
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) return;
    stopping_ = true;
  }
  nudge_.Set();
  thread_.join();
}

Result<void> LogWaker::StartLocked() {
  if (thread_.joinable()) return {};
  ASSIGN_OR_RETURN(nudge_, sys::Wakeup::Make());
  ASSIGN_OR_RETURN(thread_, sys::StartThread("log-waker", [this] { Run(); }));
  return {};
}

Result<LogWaker::Id> LogWaker::Watch(int directory, std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(StartLocked());
  const int descriptor = AddLocked(directory);
  if (descriptor >= 0) ++users_[descriptor];
  const Id id = next_id_++;
  Watched watched{descriptor, std::move(wake), std::nullopt};
  if (descriptor < 0) watched.at = Clock::now() + kUnwatchedPeriod;
  watched_.emplace(id, std::move(watched));
  nudge_.Set();
  return id;
}

int LogWaker::AddLocked(int directory) {
  if (!inotify_) inotify_.Reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify_) return -1;
  const std::string path = StrCat("/proc/self/fd/", directory);
  return ::inotify_add_watch(inotify_.get(), path.c_str(), kEvents | IN_ONLYDIR);
}

void LogWaker::WakeAt(Id id, Clock::time_point when) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = watched_.find(id);
    if (found == watched_.end()) return;
    Watched& watched = found->second;
    watched.at = watched.descriptor < 0 && watched.at ? std::min(*watched.at, when) : when;
  }
  nudge_.Set();
}

void LogWaker::Forget(Id id) {
  const std::lock_guard lock(mutex_);
  const auto found = watched_.find(id);
  if (found == watched_.end()) return;
  const int descriptor = found->second.descriptor;
  watched_.erase(found);
  if (descriptor >= 0 && --users_[descriptor] == 0) {
    users_.erase(descriptor);
    // EINVAL: the directory is gone and its watch with it.
    (void)::inotify_rm_watch(inotify_.get(), descriptor);
  }
}

int LogWaker::TimeoutMilliseconds() {
  const std::lock_guard lock(mutex_);
  std::optional<Clock::time_point> next;
  for (const auto& [id, watched] : watched_) {
    if (watched.at && (!next || *watched.at < *next)) next = watched.at;
  }
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

void LogWaker::Run() {
  while (true) {
    pollfd fds[2] = {{Inotify(), POLLIN, 0}, {nudge_.fd(), POLLIN, 0}};
    // Woken or not, what follows looks at everything.
    (void)::poll(fds, 2, TimeoutMilliseconds());
    nudge_.Clear();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    if (fds[0].revents != 0) ReadInotify(fds[0].fd);
    WakeDue();
  }
}

// -1, which poll(2) leaves out, until one could be had.
int LogWaker::Inotify() {
  const std::lock_guard lock(mutex_);
  return inotify_.get();
}

void LogWaker::ReadInotify(int inotify) {
  alignas(inotify_event) char buffer[16 * 1024];
  std::unordered_set<int> changed;
  bool overflow = false;
  ssize_t count = 0;
  while ((count = ::read(inotify, buffer, sizeof(buffer))) > 0) {
    for (ssize_t at = 0; at < count;) {
      inotify_event event{};
      std::memcpy(&event, buffer + at, sizeof(event));
      overflow = overflow || (event.mask & IN_Q_OVERFLOW) != 0;
      changed.insert(event.wd);
      at += static_cast<ssize_t>(sizeof(event) + event.len);
    }
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [id, watched] : watched_) {
    if (overflow || changed.contains(watched.descriptor)) watched.wake();
  }
}

void LogWaker::WakeDue() {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  for (auto& [id, watched] : watched_) {
    if (!watched.at || *watched.at > now) continue;
    watched.at.reset();
    if (watched.descriptor < 0) watched.at = now + kUnwatchedPeriod;
    watched.wake();
  }
}

}  // namespace holdfast::agent
