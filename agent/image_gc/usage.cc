// SPDX-License-Identifier: Apache-2.0
#include "agent/image_gc/usage.h"

#include <map>
#include <string>

namespace holdfast::agent {
namespace {

struct Part {
  uint64_t bytes = 0;
  int images = 0;
  bool stays = false;  // an image that has it is in use or pinned
};

}  // namespace

ImagesUsage SummarizeUsage(const std::vector<ImageUsage>& images,
                           const std::function<bool(const Image&)>& needed,
                           const PartialContent& partial) {
  std::map<std::string, Part> parts;
  ImagesUsage summary;
  summary.partial = partial.bytes;
  for (const ImageUsage& usage : images) {
    const bool in_use = needed(usage.image);
    summary.images.push_back({usage.image, 0, 0, in_use, usage.used});
    for (const auto& [name, bytes] : usage.parts) {
      Part& part = parts[name];
      part.bytes = bytes;
      ++part.images;
      part.stays = part.stays || in_use || usage.image.pinned;
    }
  }
  for (size_t i = 0; i < images.size(); ++i) {
    for (const auto& [name, bytes] : images[i].parts) {
      summary.images[i].size += bytes;
      if (parts.at(name).images > 1) summary.images[i].shared += bytes;
    }
  }
  summary.reclaimable = partial.bytes;
  for (const auto& [name, part] : parts) {
    summary.total += part.bytes;
    if (!part.stays) summary.reclaimable += part.bytes;
  }
  return summary;
}

}  // namespace holdfast::agent
