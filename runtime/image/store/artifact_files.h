// SPDX-License-Identifier: Apache-2.0
// The files of an OCI artifact as one tree, which lies among the layers of images: hard links to
// their blobs, so that a model of many gigabytes is on the disk once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/disk_reserve.h"
#include "runtime/image/content/blob_store.h"

namespace holdfast::runtime {

struct ArtifactFile {
  std::string path;  // as PartsOfArtifact() gives it
  Digest blob;
};

// What the tree is called: the same files have one, which is no layer of an image.
Digest ChainIdOf(const std::vector<ArtifactFile>& files);
// The same of a blob that is unpacked on top of `lower` ("" for the first).
Digest ChainIdOfTar(const Digest& lower, const Digest& blob);

using OpenBlob = std::function<Result<UniqueFd>(const Digest& blob)>;
// Makes <ingest>/<name>: directories 0755, files 0644, of whoever the agent is. The blobs' own modes
// change with them.
Result<void> LinkFiles(const std::vector<ArtifactFile>& files, const OpenBlob& open,
                       const Ingest& ingest, const std::string& name,
                       const model::DiskReserve& reserve);

}  // namespace holdfast::runtime
