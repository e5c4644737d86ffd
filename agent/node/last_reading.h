// SPDX-License-Identifier: Apache-2.0
// LastReading: something about the node, read again and again on a thread of its own. Reading waits
// for a file system that hangs; whoever asks does not, and gets what was read last. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// The thread and what it read, of whatever type.
class ReadingThread {
 public:
  using Read = std::function<std::shared_ptr<const void>()>;

  static Result<std::unique_ptr<ReadingThread>> Start(Read read, std::chrono::milliseconds every);
  ~ReadingThread();
  ReadingThread(const ReadingThread&) = delete;
  ReadingThread& operator=(const ReadingThread&) = delete;

  std::shared_ptr<const void> Last() const;

 private:
  struct State;
  explicit ReadingThread(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;  // shared with the thread, which is detached
};

template <class T>
class LastReading {
 public:
  // What is read with keeps what it needs alive: a reading that hangs outlives this object.
  using Read = std::function<std::shared_ptr<const T>()>;

  // Returns after the first reading. `read` never returns null.
  static Result<std::unique_ptr<LastReading>> Start(
      Read read, std::chrono::milliseconds every = std::chrono::seconds(10)) {
    ASSIGN_OR_RETURN(auto thread, ReadingThread::Start(std::move(read), every));
    return std::unique_ptr<LastReading>(new LastReading(std::move(thread)));
  }

  // Never null; waits for nothing.
  std::shared_ptr<const T> Last() const {
    return std::static_pointer_cast<const T>(thread_->Last());
  }

 private:
  explicit LastReading(std::unique_ptr<ReadingThread> thread) : thread_(std::move(thread)) {}
  const std::unique_ptr<ReadingThread> thread_;  // its end does not wait for a reading
};

}  // namespace holdfast::agent
