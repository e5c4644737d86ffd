// SPDX-License-Identifier: Apache-2.0
// TreeSizes: how much lies below directories that pods write to. Thread-safe.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "agent/stats/measured_places.h"

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
  std::chrono::milliseconds kept = std::chrono::minutes(2);  // since somebody asked
};

class TreeSizes : public MeasuredPlaces<TreeSize> {
 public:
  explicit TreeSizes(TreeSizesOptions options = {})
      : MeasuredPlaces(
            {.lasts = options.lasts, .rest = options.rest, .kept = options.kept},
            [most = options.most_inodes](const std::string& path, const std::stop_token& stop) {
              return MeasureTree(path, most, stop);
            }) {}
};

}  // namespace holdfast::agent
