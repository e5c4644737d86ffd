// SPDX-License-Identifier: Apache-2.0
// One image as an OCI layout in a tar, with docker-archive's manifest.json beside it, so that
// docker load, podman load, skopeo and our own import read it.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "runtime/image/content/blob_store.h"
#include "runtime/image/store/catalog.h"

namespace holdfast::runtime {

// `names` are the tags to write. Deterministic: times are zero, order is fixed. `fd` may be a pipe.
Result<void> ExportImage(const BlobStore& blobs, const ImageRecord& image,
                         const std::vector<std::string>& names, size_t document_limit, int fd);

}  // namespace holdfast::runtime
