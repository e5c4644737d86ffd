// SPDX-License-Identifier: Apache-2.0
// PeriodicReader: something that is read again and again on a thread of its own. Reading may wait for a file system that
// hangs; whoever asks does not, and gets what was read last. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "holdfast/base/result.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {

template <class Value>
class PeriodicReader {
 public:
  // What is read with keeps what it needs alive: a reading that hangs outlives this object. Never null.
  using Read = std::function<std::shared_ptr<const Value>()>;

  // Returns after the first reading. `name`: of the thread, 15 bytes.
  static Result<std::unique_ptr<PeriodicReader>> Start(
      const std::string& name, Read read,
      std::chrono::milliseconds every = std::chrono::seconds(10)) {
    auto state = std::make_shared<State>();
    state->last = read();
    ASSIGN_OR_RETURN(std::thread thread,
                     sys::StartThread(name, [state, read = std::move(read), every] {
                       state->Run(read, every);
                     }));
    thread.detach();
    return std::unique_ptr<PeriodicReader>(new PeriodicReader(std::move(state)));
  }
  // Does not wait for a reading that is under way.
  ~PeriodicReader() {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
    state_->stop.notify_all();
  }
  PeriodicReader(const PeriodicReader&) = delete;
  PeriodicReader& operator=(const PeriodicReader&) = delete;

  // Waits for nothing.
  std::shared_ptr<const Value> Last() const {
    const std::lock_guard lock(state_->mutex);
    return state_->last;
  }

 private:
  struct State {
    std::mutex mutex;  // never held while reading
    std::condition_variable stop;
    bool stopped = false;
    std::shared_ptr<const Value> last;

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

  explicit PeriodicReader(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State> state_;  // shared with the thread, which is detached
};

}  // namespace holdfast::agent
