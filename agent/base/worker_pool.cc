// SPDX-License-Identifier: Apache-2.0
#include "agent/base/worker_pool.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kIdle{20};

}  // namespace

struct WorkerPool::State : std::enable_shared_from_this<State> {
  explicit State(WorkerPoolOptions o) : options(std::move(o)) {}

  // What follows is called with the mutex held.
  Result<void> Spawn();
  Result<void> SpawnIfNeeded();
  // Takes the first job that waits and runs it without the mutex.
  void RunNext(std::unique_lock<std::mutex>& lock);
  void Work();

  const WorkerPoolOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  size_t threads = 0;
  size_t kept = 0;  // of them, so many stay although idle
  size_t idle = 0;
  size_t running = 0;  // jobs
  std::deque<std::function<void()>> queue;
};

WorkerPool::WorkerPool(WorkerPoolOptions options)
    : state_(std::make_shared<State>(std::move(options))) {}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->queue.clear();
  }
  Finish();
}

Result<void> WorkerPool::Start() {
  const std::lock_guard lock(state_->mutex);
  state_->kept = 1;
  if (state_->threads > 0) return {};
  return state_->Spawn();
}

void WorkerPool::Post(std::function<void()> job) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->stopping) {
      state_->queue.push_back(std::move(job));
      // Refused, it waits for one of the threads that are there.
      (void)state_->SpawnIfNeeded();
      state_->changed.notify_one();
      return;
    }
  }
  job();
}

Result<void> WorkerPool::TryPost(std::function<void()> job) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  const std::string& name = state.options.name;
  if (state.stopping) return Unavailable(StrCat(name, ": the agent is stopping"));
  const size_t busy = state.running + state.queue.size();
  if (busy >= state.options.threads && busy - state.options.threads >= state.options.queued) {
    return Error(Code::kResourceExhausted,
                 StrCat("too many ", name, ": ", state.options.threads, " are at work and ",
                        state.options.queued, " may wait; try again"));
  }
  state.queue.push_back(std::move(job));
  auto spawned = state.SpawnIfNeeded();
  if (!spawned && (state.threads == 0 || state.options.queued == 0)) {
    state.queue.pop_back();
    return spawned;
  }
  state.changed.notify_one();
  return {};
}

bool WorkerPool::IsBusy() const {
  const std::lock_guard lock(state_->mutex);
  return state_->running > 0 || !state_->queue.empty();
}

void WorkerPool::Finish() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  while (!state_->queue.empty()) state_->RunNext(lock);
  state_->changed.wait(lock, [&] { return state_->threads == 0; });
}

Result<void> WorkerPool::State::Spawn() {
  auto thread = sys::StartThread(options.name, [state = shared_from_this()] { state->Work(); });
  if (!thread) return std::move(thread.error());
  thread->detach();
  ++threads;
  return {};
}

Result<void> WorkerPool::State::SpawnIfNeeded() {
  if (queue.size() <= idle || threads >= options.threads) return {};
  return Spawn();
}

void WorkerPool::State::RunNext(std::unique_lock<std::mutex>& lock) {
  auto job = std::move(queue.front());
  queue.pop_front();
  ++running;
  lock.unlock();
  job();
  job = nullptr;  // what it captured goes before the lock is taken
  lock.lock();
  --running;
}

void WorkerPool::State::Work() {
  std::unique_lock lock(mutex);
  for (;;) {
    ++idle;
    const auto has_work = [this] { return stopping || !queue.empty(); };
    if (threads <= kept) {
      changed.wait(lock, has_work);
    } else {
      changed.wait_for(lock, kIdle, has_work);
    }
    --idle;
    if (queue.empty() && (stopping || threads > kept)) break;
    if (!queue.empty()) RunNext(lock);
  }
  --threads;
  changed.notify_all();
}

}  // namespace holdfast::agent
