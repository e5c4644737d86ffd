// SPDX-License-Identifier: Apache-2.0
#include "agent/base/worker_pool.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kIdle{20};
constexpr size_t kMaxWrittenOff = 64;

}  // namespace

struct WorkerPool::State : std::enable_shared_from_this<State> {
  explicit State(WorkerPoolOptions o) : options(std::move(o)) {}

  // What follows is called with the mutex held.
  Result<void> Spawn();
  Result<void> SpawnIfNeeded();
  void Add(JobId id, std::function<void()> job) { queue.emplace_back(id, std::move(job)); }
  // Takes the first job that waits and runs it without the mutex. False: it was written off, and so
  // is the thread.
  bool RunNext(std::unique_lock<std::mutex>& lock);
  void Work();

  const WorkerPoolOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  size_t threads = 0;  // that count
  size_t kept = 0;     // of them, so many stay although idle
  size_t idle = 0;
  JobId next_id = 1;
  std::deque<std::pair<JobId, std::function<void()>>> queue;
  std::set<JobId> running;
  std::set<JobId> written_off;
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

WorkerPool::JobId WorkerPool::Post(std::function<void()> job) {
  JobId id = 0;
  {
    const std::lock_guard lock(state_->mutex);
    id = state_->next_id++;
    if (!state_->stopping) {
      state_->Add(id, std::move(job));
      // Refused, it waits for one of the threads that are there.
      (void)state_->SpawnIfNeeded();
      state_->changed.notify_one();
      return id;
    }
  }
  job();
  return id;
}

Result<void> WorkerPool::TryPost(std::function<void()> job) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  const std::string& name = state.options.name;
  if (state.stopping) return Unavailable(StrCat(name, ": the agent is stopping"));
  const size_t busy = state.running.size() - state.written_off.size() + state.queue.size();
  if (busy >= state.options.threads && busy - state.options.threads >= state.options.queued) {
    return Error(Code::kResourceExhausted,
                 StrCat("too many ", name, ": ", state.options.threads, " are at work and ",
                        state.options.queued, " may wait; try again"));
  }
  const JobId id = state.next_id++;
  state.Add(id, std::move(job));
  auto spawned = state.SpawnIfNeeded();
  if (!spawned && (state.threads == 0 || state.options.queued == 0)) {
    state.queue.pop_back();
    return spawned;
  }
  state.changed.notify_one();
  return {};
}

void WorkerPool::Finish() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  while (!state_->queue.empty()) (void)state_->RunNext(lock);
  state_->changed.wait(lock, [&] { return state_->threads == 0; });
}

std::function<bool()> WorkerPool::BusyCheck() const {
  return [state = state_] {
    const std::lock_guard lock(state->mutex);
    return state->queue.size() > state->idle;
  };
}

bool WorkerPool::WriteOff(JobId id) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->running.contains(id) || state_->written_off.size() >= kMaxWrittenOff) return false;
  if (!state_->written_off.insert(id).second) return true;
  --state_->threads;
  // Refused while no other thread is left, what waits is tried with the next job that is posted.
  (void)state_->SpawnIfNeeded();
  state_->changed.notify_all();
  return true;
}

// Detached: one that was written off cannot be waited for.
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

bool WorkerPool::State::RunNext(std::unique_lock<std::mutex>& lock) {
  auto [id, job] = std::move(queue.front());
  queue.pop_front();
  running.insert(id);
  lock.unlock();
  job();
  job = nullptr;  // what it captured goes before the lock is taken
  lock.lock();
  running.erase(id);
  return written_off.erase(id) == 0;
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
    if (!queue.empty() && !RunNext(lock)) return;  // the thread no longer counts
  }
  --threads;
  changed.notify_all();
}

}  // namespace holdfast::agent
