// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/workers.h"

#include <pthread.h>

#include <csignal>

#include <utility>

namespace holdfast::agent::api {

Workers::Workers(std::string name, size_t threads, size_t queued)
    : name_(std::move(name)), max_threads_(threads), max_queued_(queued) {}

Workers::~Workers() { Stop(); }

bool Workers::Post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  if (running_ + queue_.size() >= max_threads_ + max_queued_) return false;
  queue_.push_back(std::move(task));
  StartThreadIfNeeded();
  wake_.notify_one();
  return true;
}

void Workers::PostAlways(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      queue_.push_back(std::move(task));
      StartThreadIfNeeded();
      wake_.notify_one();
      return;
    }
  }
  task();
}

void Workers::StartThreadIfNeeded() {
  if (queue_.size() <= idle_ || threads_.size() >= max_threads_) return;
  threads_.emplace_back([this] { Run(); });
  // 15 characters at most; only for people who look at the process.
  (void)::pthread_setname_np(threads_.back().native_handle(), name_.substr(0, 15).c_str());
}

void Workers::Run() {
  // A reader that went away is an error of the write, not the end of the agent.
  sigset_t pipe_signal;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  (void)::pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    auto task = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    lock.unlock();
    task();
    task = nullptr;  // what it captured goes before the lock is taken
    lock.lock();
    --running_;
  }
}

void Workers::Stop() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace holdfast::agent::api
