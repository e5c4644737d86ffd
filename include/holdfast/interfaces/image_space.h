// SPDX-License-Identifier: Apache-2.0
// ImageSpace: what images take on the disk, and when they were needed last, which decides what goes
// when room is short. Thread-safe; calls may block on disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast {

struct ImageUsage {
  Image image;
  WallTime detected;  // when it came; zero: not known
  WallTime used;      // when a pod needed it last; zero: never
  // Files and trees of the store that it is made of, by names that images share, with the bytes
  // that they take. Empty where they were not asked for.
  std::map<std::string, uint64_t> parts;
};

// Of the file system that images are on. Inodes are 0 where they are not counted.
struct ImageDisk {
  uint64_t capacity = 0, available = 0;  // bytes
  uint64_t inodes = 0, inodes_free = 0;
};

// What pulls that did not come to their end have left, to be gone on with.
struct PartialContent {
  uint64_t files = 0, bytes = 0;
};

class ImageSpace {
 public:
  virtual ~ImageSpace() = default;
  // Counting parts may take long, the first time.
  enum class Parts : uint8_t { kNone, kCounted };
  virtual Result<std::vector<ImageUsage>> Usage(Parts parts) = 0;
  virtual Result<ImageDisk> Disk() = 0;
  // These were in use at `now`. Kept over restarts.
  virtual Result<void> NoteUse(const std::vector<Digest>& ids, WallTime now) = 0;
  virtual Result<PartialContent> Partial() = 0;
  // That was last written `age` ago or earlier. What was removed.
  virtual Result<PartialContent> RemovePartial(std::chrono::seconds age) = 0;
};

}  // namespace holdfast
