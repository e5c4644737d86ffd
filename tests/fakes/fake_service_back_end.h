// SPDX-License-Identifier: Apache-2.0
// FakeServiceBackEnd: follows the changes it is given, fails or refuses as a test says.
// Thread-safe.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/interfaces/service_back_end.h"

namespace holdfast {

class FakeServiceBackEnd : public ServiceBackEnd {
 public:
  Result<ServiceApplied> Apply(const model::ServiceChange& change) override {
    const std::lock_guard lock(mutex_);
    changes_.push_back(change);
    if (!failures_.empty()) {
      Error error = failures_.front();
      failures_.pop_front();
      return error;
    }
    if (change.complete) rows_.clear();
    for (const auto& key : change.removed) rows_.erase(key);
    ServiceApplied applied;
    for (const auto& row : change.rows) {
      if (refuse_.contains(row->key.name)) {
        rows_.erase(row->key);
        applied.refused.push_back({row->key, "the kernel does not want it"});
      } else {
        rows_[row->key] = row;
      }
    }
    return applied;
  }
  Result<uint64_t> Repair() override {
    const std::lock_guard lock(mutex_);
    ++repairs_;
    return std::exchange(damage_, 0);
  }
  Result<bool> Remove() override {
    const std::lock_guard lock(mutex_);
    const bool any = !rows_.empty();
    rows_.clear();
    ++removals_;
    return any;
  }
  Result<std::string> Dump() override { return std::string("rules\n"); }

  void FailNext(Error error) {
    const std::lock_guard lock(mutex_);
    failures_.push_back(std::move(error));
  }
  void Refuse(std::set<std::string> names) {
    const std::lock_guard lock(mutex_);
    refuse_ = std::move(names);
  }
  void Damage(uint64_t differences) {
    const std::lock_guard lock(mutex_);
    damage_ = differences;
  }
  std::vector<model::ServiceChange> changes() const {
    const std::lock_guard lock(mutex_);
    return changes_;
  }
  std::map<model::ServicePortKey, model::ServicePortRowPtr> rows() const {
    const std::lock_guard lock(mutex_);
    return rows_;
  }
  int removals() const {
    const std::lock_guard lock(mutex_);
    return removals_;
  }
  int repairs() const {
    const std::lock_guard lock(mutex_);
    return repairs_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<model::ServiceChange> changes_;
  std::map<model::ServicePortKey, model::ServicePortRowPtr> rows_;
  std::deque<Error> failures_;
  std::set<std::string> refuse_;
  uint64_t damage_ = 0;
  int repairs_ = 0;
  int removals_ = 0;
};

}  // namespace holdfast
