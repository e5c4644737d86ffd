// SPDX-License-Identifier: Apache-2.0
// What images take on the disk, as a person wants to see it. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "holdfast/interfaces/image_space.h"

namespace holdfast::agent {

struct ImageUsageRow {
  Image image;
  uint64_t size = 0;    // of everything that it is made of
  uint64_t shared = 0;  // of these, what other images are made of too
  bool in_use = false;
  WallTime used;  // when it was seen in use last; zero: never
};

struct ImagesUsage {
  std::vector<ImageUsageRow> images;
  uint64_t total = 0;        // each part once
  uint64_t reclaimable = 0;  // without the images that are in use or pinned
  uint64_t partial = 0;      // what unfinished pulls have left
};

ImagesUsage SummarizeUsage(const std::vector<ImageUsage>& images,
                           const std::function<bool(const Image&)>& needed,
                           const PartialContent& partial);

}  // namespace holdfast::agent
