// SPDX-License-Identifier: Apache-2.0
// TreeSizes: how much lies below directories that pods write to. Counting takes long, so it is done apart from asking:
// who asks gets what was counted last. Thread-safe.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace holdfast::agent {

// What a file takes: st_blocks are of 512 bytes, whatever the file system's are.
inline uint64_t DiskBytes(const struct stat& file) {
  return static_cast<uint64_t>(file.st_blocks) * 512;
}

struct TreeSize {
  uint64_t bytes = 0, inodes = 0;
  bool whole = true;  // false: it has at least so much, the rest was not counted
};

// Of what is below `path`, itself included, on the disk; what has several names there once; links are not followed,
// mounts not entered. Not whole where there are more than `most_inodes`, or where it was rearranged again and again.
// nullopt: it is not there, or a stop was asked for. The tree may be hostile and changing; about 16 bytes of memory for
// each inode.
std::optional<TreeSize> MeasureTree(const std::string& path, uint64_t most_inodes,
                                    const std::stop_token& stop = {});

struct TreeSizesOptions {
  std::chrono::milliseconds lasts = std::chrono::seconds(60);
  uint64_t most_inodes = 200'000;  // of one tree: about a second
  int rest = 20;                   // so many times as long as counting it took
};

class TreeSizes {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit TreeSizes(TreeSizesOptions options = {}) : options_(options) {}

  // nullopt until it was counted. Remembers that it is wanted.
  std::optional<TreeSize> Get(const std::string& path);
  // Counts what is wanted and was not counted lately, and forgets what nobody asked for since the call before. One that
  // takes long is counted the more seldom, so that it takes no more than its share of a CPU. May take long; when another
  // thread is at it, it returns at once.
  void Measure(const std::stop_token& stop = {});

 private:
  struct Entry {
    bool wanted = true;
    std::optional<Time> due;
    std::optional<TreeSize> size;
  };

  std::vector<std::string> Stale(Time now);

  const TreeSizesOptions options_;
  std::mutex measuring_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // guarded by mutex_
};

}  // namespace holdfast::agent
