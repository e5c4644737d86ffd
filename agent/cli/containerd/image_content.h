// SPDX-License-Identifier: Apache-2.0
// One image out of containerd's content store, as the members of an OCI layout.
//
//   <root>/io.containerd.content.v1.content/blobs/sha256/<64 hex digits>
//
// No link is followed below the root, and nothing is believed of a blob but its size: whoever imports the layout looks at
// digests. A blob is opened here, so that containerd may remove it before it is sent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/cli/containerd/choice.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::containerd {

struct LayoutFile {
  std::string name;  // "blobs/sha256/…"
  UniqueFd file;
  uint64_t size = 0;
  bool is_layer = false;
};

// What an import needs of it on this machine: of an index the image for this platform. kNotFound names what containerd does
// not have of it.
Result<std::vector<LayoutFile>> OpenImageContent(int root, const ChosenImage& image);

}  // namespace holdfast::agent::containerd
