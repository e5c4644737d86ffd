// SPDX-License-Identifier: Apache-2.0
// VolumeLocks: one at a time per volume of a node. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace holdfast::agent {

class VolumeLocks {
 public:
  class Lock {
   public:
    // Waits until it has it, or nobody wants it any more.
    Lock(VolumeLocks& locks, std::string volume, const std::atomic<bool>* cancelled = nullptr)
        : locks_(locks), volume_(std::move(volume)) {
      constexpr std::chrono::milliseconds kLook{100};
      std::unique_lock lock(locks_.mutex_);
      while (!held_ && (cancelled == nullptr || !*cancelled)) {
        held_ = locks_.busy_.insert(volume_).second;
        if (!held_) locks_.free_.wait_for(lock, kLook);
      }
    }
    ~Lock() {
      if (!held_) return;
      {
        const std::lock_guard lock(locks_.mutex_);
        locks_.busy_.erase(volume_);
      }
      locks_.free_.notify_all();
    }
    bool held() const { return held_; }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    VolumeLocks& locks_;
    const std::string volume_;
    bool held_ = false;
  };

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  std::set<std::string> busy_;
};

}  // namespace holdfast::agent
