// SPDX-License-Identifier: Apache-2.0
#include "agent/base/kept_threads.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace holdfast::agent {

int KeptThreads::Start(pthread_t* thread, bool detached, Body body, void* argument) {
  const std::lock_guard lock(mutex_);
  auto taken = std::find_if(threads_.begin(), threads_.end(), Rests);
  if (taken == threads_.end()) {
    if (const int error = Make(); error != 0) return error;
    taken = std::prev(threads_.end());
  }
  taken->detached = detached;
  taken->body = body;
  taken->argument = argument;
  taken->state = State::kAtWork;
  taken->changed.notify_all();
  *thread = taken->id;
  return 0;
}

int KeptThreads::Make() {
  pthread_attr_t attributes;
  if (const int error = ::pthread_attr_init(&attributes); error != 0) return error;
  // Fails for a state that there is not.
  (void)::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  Thread& made = threads_.emplace_back();
  made.owner = this;
  const int error = create_(&made.id, &attributes, Run, &made);
  if (error != 0) threads_.pop_back();
  // Never fails: pthread_attr_destroy(3).
  (void)::pthread_attr_destroy(&attributes);
  return error;
}

int KeptThreads::Reserve(size_t count) {
  const std::lock_guard lock(mutex_);
  for (size_t rest = CountResting(); rest < count; ++rest) {
    if (const int error = Make(); error != 0) return error;
  }
  return 0;
}

std::optional<int> KeptThreads::Join(pthread_t thread, void** result) {
  std::unique_lock lock(mutex_);
  Thread* const found = Find(thread);
  if (found == nullptr) return std::nullopt;
  if (found->detached) return EINVAL;
  if (::pthread_equal(thread, ::pthread_self()) != 0) return EDEADLK;
  found->changed.wait(lock, [&] { return found->state == State::kEnded; });
  if (result != nullptr) *result = found->result;
  found->state = State::kResting;
  return 0;
}

std::optional<int> KeptThreads::Detach(pthread_t thread) {
  const std::lock_guard lock(mutex_);
  Thread* const found = Find(thread);
  if (found == nullptr) return std::nullopt;
  if (found->detached) return EINVAL;
  found->detached = true;
  if (found->state == State::kEnded) found->state = State::kResting;
  return 0;
}

size_t KeptThreads::Resting() const {
  const std::lock_guard lock(mutex_);
  return CountResting();
}

size_t KeptThreads::CountResting() const {
  return static_cast<size_t>(std::count_if(threads_.begin(), threads_.end(), Rests));
}

void* KeptThreads::Run(void* thread) {
  auto& own = *static_cast<Thread*>(thread);
  while (true) own.owner->Work(own);
}

void KeptThreads::Work(Thread& thread) {
  std::unique_lock lock(mutex_);
  thread.changed.wait(lock, [&] { return thread.state == State::kAtWork; });
  lock.unlock();
  void* const result = thread.body(thread.argument);
  // It had a name of the library's. Fails for a bad pointer only.
  (void)::prctl(PR_SET_NAME, "kept");
  lock.lock();
  thread.result = result;
  thread.state = thread.detached ? State::kResting : State::kEnded;
  thread.changed.notify_all();
}

KeptThreads::Thread* KeptThreads::Find(pthread_t id) {
  for (Thread& each : threads_) {
    if (each.state != State::kResting && ::pthread_equal(each.id, id) != 0) return &each;
  }
  return nullptr;
}

}  // namespace holdfast::agent
