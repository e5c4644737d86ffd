// SPDX-License-Identifier: Apache-2.0
#include "agent/node/last_reading.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "holdfast/sys/thread.h"

namespace holdfast::agent {

struct ReadingThread::State {
  std::mutex mutex;  // never held while reading
  std::condition_variable stop;
  bool stopped = false;
  std::shared_ptr<const void> last;

  void Run(const Read& read, std::chrono::milliseconds every) {
    std::unique_lock lock(mutex);
    while (!stop.wait_for(lock, every, [this] { return stopped; })) {
      lock.unlock();
      auto fresh = read();
      lock.lock();
      last = std::move(fresh);
    }
  }
};

Result<std::unique_ptr<ReadingThread>> ReadingThread::Start(Read read,
                                                            std::chrono::milliseconds every) {
  auto state = std::make_shared<State>();
  state->last = read();
  ASSIGN_OR_RETURN(std::thread thread,
                   sys::StartThread("node-reading", [state, read = std::move(read), every] {
                     state->Run(read, every);
                   }));
  thread.detach();
  return std::unique_ptr<ReadingThread>(new ReadingThread(std::move(state)));
}

ReadingThread::ReadingThread(std::shared_ptr<State> state) : state_(std::move(state)) {}

ReadingThread::~ReadingThread() {
  const std::lock_guard lock(state_->mutex);
  state_->stopped = true;
  state_->stop.notify_all();
}

std::shared_ptr<const void> ReadingThread::Last() const {
  const std::lock_guard lock(state_->mutex);
  return state_->last;
}

}  // namespace holdfast::agent
