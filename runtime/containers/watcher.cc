// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/watcher.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "holdfast/sys/thread.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint64_t kWakeToken = 0;
constexpr uint64_t kExitsToken = 1;
constexpr uint64_t kFirstToken = 2;
constexpr milliseconds kFirstPause(1);
constexpr milliseconds kLongestPause(500);

}  // namespace

Result<std::unique_ptr<ExitWatcher>> ExitWatcher::Start(UniqueFd exits, Callbacks callbacks) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return Error::FromErrno(errno, "epoll_create1");
  ASSIGN_OR_RETURN(sys::Wakeup wake, sys::Wakeup::Make());
  auto watcher = std::unique_ptr<ExitWatcher>(
      new ExitWatcher(std::move(epoll), std::move(wake), std::move(exits), std::move(callbacks)));
  RETURN_IF_ERROR(watcher->Add(watcher->wake_.fd(), kWakeToken));
  if (watcher->exits_) RETURN_IF_ERROR(watcher->Add(watcher->exits_.get(), kExitsToken));
  ASSIGN_OR_RETURN(watcher->thread_,
                   sys::StartThread("exit-watcher", [raw = watcher.get()] { raw->Run(); }));
  return watcher;
}

ExitWatcher::ExitWatcher(UniqueFd epoll, sys::Wakeup wake, UniqueFd exits, Callbacks callbacks)
    : epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      exits_(std::move(exits)),
      callbacks_(std::move(callbacks)),
      next_token_(kFirstToken) {}

ExitWatcher::~ExitWatcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.Set();
  if (thread_.joinable()) thread_.join();
}

Result<void> ExitWatcher::Add(int fd, uint64_t token) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return Error::FromErrno(errno, "epoll_ctl add");
  }
  return {};
}

Result<void> ExitWatcher::Watch(const std::string& id, std::shared_ptr<const PidFd> process) {
  const int fd = process->get();
  uint64_t token = 0;
  {
    const std::lock_guard lock(mutex_);
    token = next_token_++;
    watched_.emplace(token, Watched{id, std::move(process)});
  }
  auto added = Add(fd, token);
  if (!added) {
    const std::lock_guard lock(mutex_);
    watched_.erase(token);
  }
  return added;
}

void ExitWatcher::Ask(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    questions_.insert_or_assign(id, Question{steady_clock::now(), kFirstPause});
  }
  wake_.Set();
}

int ExitWatcher::WaitMillis() {
  const auto now = steady_clock::now();
  auto next = steady_clock::time_point::max();
  const std::lock_guard lock(mutex_);
  if (stop_) return 0;
  for (const auto& [id, question] : questions_) next = std::min(next, question.next);
  if (next == steady_clock::time_point::max()) return -1;
  const auto wait = std::chrono::ceil<milliseconds>(next - now).count();
  return static_cast<int>(std::max<long>(wait, 0));
}

void ExitWatcher::Run() {
  std::array<epoll_event, 64> events{};
  for (;;) {
    const int wait = WaitMillis();
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), wait);
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
    }
    for (int i = 0; i < count; ++i) Handle(events[static_cast<size_t>(i)].data.u64);
    AskDue();
  }
}

void ExitWatcher::Handle(uint64_t token) {
  if (token == kWakeToken) {
    wake_.Clear();
  } else if (token == kExitsToken) {
    for (const std::string& id : callbacks_.read_hints(exits_.get())) {
      // A record is there, so one question is enough: asking again would not end for an id that
      // is nobody's.
      (void)callbacks_.resolve(id);
    }
  } else {
    HandleEnded(token);
  }
}

void ExitWatcher::HandleEnded(uint64_t token) {
  const std::lock_guard lock(mutex_);
  const auto it = watched_.find(token);
  if (it == watched_.end()) return;
  // A pidfd stays readable, so it leaves the set; descriptors that others share too are not closed
  // by erasing, hence the explicit removal.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second.process->get(), nullptr);
  questions_.insert_or_assign(it->second.id, Question{steady_clock::now(), kFirstPause});
  watched_.erase(it);
}

void ExitWatcher::AskDue() {
  const auto now = steady_clock::now();
  std::map<std::string, Question> due;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = questions_.begin(); it != questions_.end();) {
      const auto here = it++;
      if (here->second.next <= now) due.insert(questions_.extract(here));
    }
  }
  for (auto& [id, question] : due) {
    if (callbacks_.resolve(id)) continue;
    question.pause = std::min(question.pause * 2, kLongestPause);
    question.next = now + question.pause;
    const std::lock_guard lock(mutex_);
    questions_.emplace(id, question);  // unless it was asked anew meanwhile
  }
}

}  // namespace holdfast::runtime
