// SPDX-License-Identifier: Apache-2.0
// AnswerBudget: how many bytes of answers may wait for one user to read them. gRPC keeps an answer
// until the client takes it, however many calls a client makes and however slowly it reads.
// Thread-safe; outlives its shares.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace holdfast::agent::api {

class AnswerBudget {
 public:
  // One answer's part; given back by the destructor.
  class Share {
   public:
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), uid_(other.uid_), bytes_(other.bytes_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(uid_, other.uid_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (budget_ != nullptr) budget_->GiveBack(uid_, bytes_);
    }

   private:
    friend class AnswerBudget;
    Share(AnswerBudget* budget, uid_t uid, size_t bytes)
        : budget_(budget), uid_(uid), bytes_(bytes) {}
    AnswerBudget* budget_;
    uid_t uid_;
    size_t bytes_;
  };

  explicit AnswerBudget(size_t bytes_per_uid) : bytes_per_uid_(bytes_per_uid) {}
  AnswerBudget(const AnswerBudget&) = delete;
  AnswerBudget& operator=(const AnswerBudget&) = delete;

  // nullopt: too much of this user's waits already. One answer always may, whatever its size.
  std::optional<Share> Take(uid_t uid, size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes == 0) return Share(nullptr, uid, 0);
    size_t& waiting = waiting_[uid];
    if (waiting != 0 && (waiting > bytes_per_uid_ || bytes > bytes_per_uid_ - waiting)) {
      return std::nullopt;
    }
    waiting += bytes;
    return Share(this, uid, bytes);
  }

 private:
  void GiveBack(uid_t uid, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(uid);
    found->second -= bytes;
    if (found->second == 0) waiting_.erase(found);
  }

  const size_t bytes_per_uid_;
  std::mutex mutex_;
  std::map<uid_t, size_t> waiting_;
};

}  // namespace holdfast::agent::api
