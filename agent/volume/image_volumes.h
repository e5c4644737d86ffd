// SPDX-License-Identifier: Apache-2.0
// Volumes that an image declares (VOLUME): each container gets a writable directory of its own
// there, also with readOnlyRootFilesystem, and it goes with the container. Where the image has
// files at the place, they must be seen: the container's own layer shows them, and is writable
// unless readOnlyRootFilesystem. Thread-safe; reads the image's layers.
#pragma once

#include <sys/types.h>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast::agent {

struct ImageVolume {
  std::string path;  // absolute in the container
  mode_t mode = 0755;
  uid_t owner = 0;
  gid_t group = 0;
};

// Those places of an image that it has nothing at, or an empty directory: as that is. What is
// wrong with a place (no absolute path, "..", a file) makes it none: an image is untrusted.
std::vector<ImageVolume> ImageVolumes(const Image& image);

// Makes the directory on the node. Idempotent.
Result<void> EnsureImageVolume(const std::string& directory, const ImageVolume& volume);

}  // namespace holdfast::agent
