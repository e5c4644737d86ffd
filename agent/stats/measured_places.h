// SPDX-License-Identifier: Apache-2.0
// MeasuredPlaces: what was found at places where looking takes long. It is done apart from asking: who asks gets what was
// found last. Thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::agent {

struct MeasuredPlacesOptions {
  std::chrono::milliseconds lasts = std::chrono::seconds(60);
  int rest = 20;                                             // so many times as long as a look took
  std::chrono::milliseconds kept = std::chrono::minutes(2);  // since somebody asked
};

template <class Value>
class MeasuredPlaces {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // nullopt: nothing is there, or a stop was asked for.
  using Look = std::function<std::optional<Value>(const std::string& path, const std::stop_token&)>;

  MeasuredPlaces(MeasuredPlacesOptions options, Look look)
      : options_(options), look_(std::move(look)) {}

  // nullopt until somebody looked. Remembers that it is wanted.
  std::optional<Value> Get(const std::string& path) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[path];
    entry.asked = std::chrono::steady_clock::now();
    return entry.value;
  }

  // Looks at what is wanted and was not looked at lately, and forgets what nobody asks for any more. What
  // takes long is looked at the more seldom, so that it takes no more than its share of a CPU. May take long; when
  // another thread is at it, it returns at once.
  void Measure(const std::stop_token& stop = {}) {
    const std::unique_lock measuring(measuring_, std::try_to_lock);
    if (!measuring) return;
    for (const std::string& path : Stale(std::chrono::steady_clock::now())) {
      if (stop.stop_requested()) return;
      const Time begun = std::chrono::steady_clock::now();
      auto value = look_(path, stop);
      const Time now = std::chrono::steady_clock::now();
      const std::lock_guard lock(mutex_);
      Entry& entry = entries_[path];
      entry.due = now + std::max<Time::duration>(options_.lasts, options_.rest * (now - begun));
      entry.value = std::move(value);
    }
  }

 private:
  struct Entry {
    Time asked;
    std::optional<Time> due;
    std::optional<Value> value;
  };

  std::vector<std::string> Stale(Time now) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_,
                  [&](const auto& entry) { return now - entry.second.asked > options_.kept; });
    std::vector<std::string> out;
    for (const auto& [path, entry] : entries_) {
      if (!entry.due || now >= *entry.due) out.push_back(path);
    }
    return out;
  }

  const MeasuredPlacesOptions options_;
  const Look look_;
  std::mutex measuring_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // guarded by mutex_
};

}  // namespace holdfast::agent
