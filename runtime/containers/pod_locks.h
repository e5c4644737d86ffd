// SPDX-License-Identifier: Apache-2.0
// PodLocks: one mutex per pod, so that calls that change the same pod take turns and others do not
// wait for them. Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "holdfast/base/ids.h"

namespace holdfast::runtime {

class PodLocks {
 public:
  class Guard {
   public:
    Guard(PodLocks* locks, PodUid uid) : locks_(locks), uid_(std::move(uid)) {}
    Guard(Guard&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)), uid_(std::move(other.uid_)) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (locks_ != nullptr) locks_->Release(uid_);
    }

   private:
    PodLocks* locks_;
    PodUid uid_;
  };

  Guard Lock(const PodUid& uid) {
    std::unique_lock lock(mutex_);
    released_.wait(lock, [&] { return !held_.contains(uid); });
    held_.insert(uid);
    return Guard(this, uid);
  }
  // nullopt when a call for this pod is under way.
  std::optional<Guard> TryLock(const PodUid& uid) {
    const std::lock_guard lock(mutex_);
    if (!held_.insert(uid).second) return std::nullopt;
    return Guard(this, uid);
  }

 private:
  void Release(const PodUid& uid) {
    {
      const std::lock_guard lock(mutex_);
      held_.erase(uid);
    }
    released_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable released_;
  std::set<PodUid> held_;
};

}  // namespace holdfast::runtime
