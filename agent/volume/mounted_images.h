// SPDX-License-Identifier: Apache-2.0
// Volumes of kind `image`: the files of an image, merged as for a container's root, read-only, in one
// mount per pod and volume, which every container of the pod binds. Thread-safe for different
// directories; calls may block on disk.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// Makes `directory` and mounts there. Idempotent: what is mounted stays, whatever the image's name
// means by now. `layers`: absolute directories, lowest first. `id`: the image's; the mount bears it.
Result<void> MountImage(const std::string& directory, const std::string& id,
                        const std::vector<std::string>& layers);
// By what is mounted: its layers must stay, whatever names it has lost.
Result<bool> IsMountedImage(const std::string& id);

}  // namespace holdfast::agent
