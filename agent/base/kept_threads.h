// SPDX-License-Identifier: Apache-2.0
// KeptThreads: what a library gets for its threads. One that ends is kept, and is the next that it asks
// for: a library that comes and goes (gRPC, with the clients of the API) finds its threads also when
// the node has none left. There are never more than were at work at once. Thread-safe.
//
// A body returns; it neither calls pthread_exit(3) nor is it cancelled. What it leaves in variables of its
// thread is there for the next one.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>

namespace holdfast::agent {

class KeptThreads {
 public:
  using Body = void* (*)(void*);
  // Makes a thread; answers as pthread_create(3).
  using Create = int (*)(pthread_t*, const pthread_attr_t*, Body, void*);

  // Outlived by its threads: it is never destroyed.
  explicit KeptThreads(Create create) : create_(create) {}
  ~KeptThreads() = delete;

  // A thread that rests, or a new one; answers as pthread_create(3).
  int Start(pthread_t* thread, bool detached, Body body, void* argument);
  // As pthread_join(3) and pthread_detach(3); nullopt: it is none of these threads.
  std::optional<int> Join(pthread_t thread, void** result);
  std::optional<int> Detach(pthread_t thread);
  // Makes so many rest, or fewer: then it answers as pthread_create(3) did.
  int Reserve(size_t count);
  // Those without a body.
  size_t Resting() const;

 private:
  enum class State { kResting, kAtWork, kEnded };
  struct Thread {
    KeptThreads* owner = nullptr;
    pthread_t id{};
    State state = State::kResting;
    bool detached = false;
    Body body = nullptr;
    void* argument = nullptr;
    void* result = nullptr;
    std::condition_variable changed{};
  };

  static bool Rests(const Thread& thread) { return thread.state == State::kResting; }
  // These three with the mutex held. One more, which rests; answers as pthread_create(3).
  int Make();
  size_t CountResting() const;
  Thread* Find(pthread_t id);
  static void* Run(void* thread);
  void Work(Thread& thread);

  const Create create_;
  mutable std::mutex mutex_;  // what follows
  std::list<Thread> threads_;
};

}  // namespace holdfast::agent
