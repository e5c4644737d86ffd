// SPDX-License-Identifier: Apache-2.0
// TreeSizes: how much lies below directories that pods write to. Counting takes long, so it is done apart from asking:
// who asks gets what was counted last. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::agent {

struct TreeSize {
  uint64_t bytes = 0, inodes = 0;
};

// Of what is below `path`, itself included; links are not followed, mounts not entered. nullopt: it is not there, or
// has more than `most_inodes`. The tree may be hostile and changing.
std::optional<TreeSize> MeasureTree(const std::string& path, uint64_t most_inodes);

class TreeSizes {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit TreeSizes(std::chrono::milliseconds lasts = std::chrono::seconds(60)) : lasts_(lasts) {}

  // nullopt until it was counted. Remembers that it is wanted.
  std::optional<TreeSize> Get(const std::string& path);
  // Counts what is wanted and was not counted lately, and forgets what nobody asked for since the call before. May
  // take long; when another thread is at it, it returns at once.
  void Measure();

 private:
  struct Entry {
    bool wanted = true;
    std::optional<Time> measured;
    std::optional<TreeSize> size;
  };

  std::vector<std::string> Stale(Time now);

  const std::chrono::milliseconds lasts_;
  std::mutex measuring_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // guarded by mutex_
};

}  // namespace holdfast::agent
