// SPDX-License-Identifier: Apache-2.0
// What of containerd's images is to be imported, and under which names. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/cli/containerd/images.h"

namespace holdfast::agent::containerd {

// One content with all its names.
struct ChosenImage {
  Target target;
  std::vector<std::string> names;
};

struct Choice {
  std::vector<ChosenImage> images;
  struct Skipped {
    std::string name, why;
  };
  std::vector<Skipped> skipped;
  std::vector<std::string> absent;  // of those that were asked for
};

// What `wanted` (names as people write them) means, all when it is empty. Left out are names that say nothing of their own:
// of the form sha256:…, which CRI gives beside others, and repository@sha256:… where the same content has a tag there.
Choice ChooseImages(const std::vector<NamedImage>& images, const std::vector<std::string>& wanted);

}  // namespace holdfast::agent::containerd
