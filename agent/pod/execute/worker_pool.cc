// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/worker_pool.h"

#include <set>
#include <thread>
#include <utility>

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kIdle{20};
constexpr size_t kMaxWrittenOff = 64;

}  // namespace

struct WorkerPool::State {
  explicit State(size_t n) : bound(n) {}

  const size_t bound;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  size_t threads = 0;  // that count
  size_t idle = 0;
  JobId next_id = 1;
  std::deque<std::pair<JobId, std::function<void()>>> queue;
  std::set<JobId> running;
  std::set<JobId> written_off;
};

WorkerPool::WorkerPool(size_t threads) : state_(std::make_shared<State>(threads)) {}

WorkerPool::~WorkerPool() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->queue.clear();
  state_->changed.notify_all();
  state_->changed.wait(lock, [&] { return state_->threads == 0; });
}

WorkerPool::JobId WorkerPool::Post(std::function<void()> job) {
  const std::lock_guard lock(state_->mutex);
  const JobId id = state_->next_id++;
  if (state_->stopping) return id;
  state_->queue.emplace_back(id, std::move(job));
  if (state_->idle >= state_->queue.size()) {
    state_->changed.notify_one();
  } else if (state_->threads < state_->bound) {
    Spawn(state_);
  }
  return id;
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
  if (!state_->queue.empty()) Spawn(state_);
  state_->changed.notify_all();
  return true;
}

// With the mutex held. The threads own the state together with the pool, since one that was written
// off may outlive it.
void WorkerPool::Spawn(const std::shared_ptr<State>& state) {
  ++state->threads;
  std::thread([state] { Work(state); }).detach();
}

void WorkerPool::Work(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    ++state->idle;
    state->changed.wait_for(lock, kIdle, [&] { return state->stopping || !state->queue.empty(); });
    --state->idle;
    if (state->queue.empty()) break;  // stopping, or idle for long
    auto [id, job] = std::move(state->queue.front());
    state->queue.pop_front();
    state->running.insert(id);
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    state->running.erase(id);
    if (state->written_off.erase(id) != 0) return;  // it no longer counts
  }
  --state->threads;
  state->changed.notify_all();
}

}  // namespace holdfast::agent
