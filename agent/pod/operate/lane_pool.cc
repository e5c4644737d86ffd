// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/lane_pool.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMostGivenBack = 64;

}  // namespace

struct LanePool::State : std::enable_shared_from_this<LanePool::State> {
  struct Job {
    JobId id = 0;
    std::function<void()> run;
  };
  struct Queue {
    size_t bound = 0;
    size_t running = 0;  // that count
    std::deque<Job> jobs;
    bool HasRoom() const { return running < bound && !jobs.empty(); }
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Queue> lanes;
  Rest rest;
  bool stopping = false;
  size_t threads = 0;
  size_t calming = 0;  // threads that are no longer counted, in rest.calm
  size_t most_threads = 0;
  size_t idle = 0;
  size_t woken = 0;  // idle threads that were told to look
  JobId next_id = 1;
  std::map<JobId, Lane> running;
  std::set<JobId> given_back;

  // All with the mutex held.
  // Threads that are not lost to a job that gave its place back.
  size_t Ready() const { return threads - given_back.size(); }
  Queue* NextLane();
  void WakeOne();
  bool Spawn();
  bool Rests(std::unique_lock<std::mutex>& lock);
  bool WaitForJob(std::unique_lock<std::mutex>& lock);
  void RunNext(std::unique_lock<std::mutex>& lock, Queue& queue);

  void Work();
  static thread_local const State* current;  // of whose threads this is one
};

thread_local const LanePool::State* LanePool::State::current = nullptr;

// The oldest job that may run.
LanePool::State::Queue* LanePool::State::NextLane() {
  Queue* next = nullptr;
  for (Queue& queue : lanes) {
    if (!queue.HasRoom()) continue;
    if (next == nullptr || queue.jobs.front().id < next->jobs.front().id) next = &queue;
  }
  return next;
}

void LanePool::State::WakeOne() {
  if (idle > woken) {
    ++woken;
    changed.notify_one();
  } else if (threads < most_threads) {
    // Without one the job waits for a thread that is there; each later job tries again.
    (void)Spawn();
  }
}

bool LanePool::State::Spawn() {
  auto thread = sys::StartThread("pods", [self = shared_from_this()] { self->Work(); });
  if (!thread) return false;
  thread->detach();
  ++threads;
  return true;
}

// True: for as long as a thread that is not needed stays. The only one there is is woken for a job alone.
bool LanePool::State::Rests(std::unique_lock<std::mutex>& lock) {
  if (Ready() > 1) return changed.wait_for(lock, rest.idle) == std::cv_status::timeout;
  changed.wait(lock);
  return false;
}

// False: the thread is not needed any more.
bool LanePool::State::WaitForJob(std::unique_lock<std::mutex>& lock) {
  while (!stopping) {
    if (NextLane() != nullptr) return true;
    ++idle;
    const bool rested = Rests(lock);
    --idle;
    if (woken > 0) --woken;
    if (rested && NextLane() == nullptr && Ready() > 1) return false;
  }
  return false;
}

void LanePool::State::RunNext(std::unique_lock<std::mutex>& lock, Queue& queue) {
  Job job = std::move(queue.jobs.front());
  queue.jobs.pop_front();
  ++queue.running;
  running.emplace(job.id, static_cast<Lane>(&queue - lanes.data()));
  if (NextLane() != nullptr) WakeOne();  // what a job of this thread left, too
  lock.unlock();
  job.run();
  job.run = nullptr;
  lock.lock();
  running.erase(job.id);
  if (given_back.erase(job.id) == 0) {
    --queue.running;
  } else {
    --most_threads;
  }
}

void LanePool::State::Work() {
  current = this;
  std::unique_lock lock(mutex);
  while (WaitForJob(lock)) RunNext(lock, *NextLane());
  --threads;
  if (Ready() == 1 && !stopping && rest.calm) {
    ++calming;
    lock.unlock();
    rest.calm();
    lock.lock();
    --calming;
  }
  changed.notify_all();
}

Result<std::unique_ptr<LanePool>> LanePool::Start(const std::vector<size_t>& bounds, Rest rest) {
  auto state = std::make_shared<State>();
  state->rest = std::move(rest);
  for (const size_t bound : bounds) {
    state->lanes.push_back({.bound = bound, .running = 0, .jobs = {}});
    state->most_threads += bound;
  }
  const std::lock_guard lock(state->mutex);
  if (!state->Spawn()) return Error(Code::kResourceExhausted, "no thread can be started");
  return std::unique_ptr<LanePool>(new LanePool(state));
}

void LanePool::Stop() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  for (State::Queue& queue : state_->lanes) queue.jobs.clear();
  state_->changed.notify_all();
  state_->changed.wait(
      lock, [&] { return state_->threads == state_->given_back.size() && state_->calming == 0; });
}

LanePool::JobId LanePool::Post(Lane lane, std::function<void()> job) {
  const std::lock_guard lock(state_->mutex);
  const JobId id = state_->next_id++;
  if (state_->stopping) return id;
  State::Queue& queue = state_->lanes.at(lane);
  queue.jobs.push_back({id, std::move(job)});
  // One of our own threads looks for itself when its job is done, and wakes others then.
  if (State::current != state_.get() && queue.HasRoom()) state_->WakeOne();
  return id;
}

bool LanePool::Cancel(JobId id) {
  std::function<void()> dropped;  // destroyed without the mutex
  const std::lock_guard lock(state_->mutex);
  for (State::Queue& queue : state_->lanes) {
    const auto job = std::ranges::find(queue.jobs, id, &State::Job::id);
    if (job == queue.jobs.end()) continue;
    dropped = std::move(job->run);
    queue.jobs.erase(job);
    return true;
  }
  return false;
}

bool LanePool::GiveBack(JobId id) {
  const std::lock_guard lock(state_->mutex);
  const auto job = state_->running.find(id);
  if (job == state_->running.end()) return false;
  if (state_->given_back.contains(id)) return true;
  if (state_->given_back.size() >= kMostGivenBack) return false;
  state_->given_back.insert(id);
  --state_->lanes[job->second].running;
  ++state_->most_threads;
  if (state_->NextLane() != nullptr) state_->WakeOne();
  return true;
}

}  // namespace holdfast::agent
