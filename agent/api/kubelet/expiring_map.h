// SPDX-License-Identifier: Apache-2.0
// ExpiringMap: answers that hold for a while, by what was asked; the oldest gives way when there are too many.
// Single-thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

namespace holdfast::agent::api {

template <class Value>
class ExpiringMap {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit ExpiringMap(size_t most) : most_(most) {}

  // Null when there is none that still holds. Until the next Put().
  const Value* Find(const std::string& key, Time now) const {
    const auto found = entries_.find(key);
    return found == entries_.end() || found->second.until <= now ? nullptr : &found->second.value;
  }
  void Put(const std::string& key, Value value, Time until) {
    if (!entries_.contains(key)) {
      order_.push_back(key);
      if (order_.size() > most_) {
        entries_.erase(order_.front());
        order_.pop_front();
      }
    }
    entries_.insert_or_assign(key, Entry{std::move(value), until});
  }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Value value;
    Time until;
  };
  const size_t most_;
  std::unordered_map<std::string, Entry> entries_;
  std::deque<std::string> order_;
};

}  // namespace holdfast::agent::api
