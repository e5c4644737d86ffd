// SPDX-License-Identifier: Apache-2.0
// What the blobs of an OCI artifact become when it is mounted as a volume. Pure; a manifest is
// untrusted. Source: image-spec 1.1, "guidelines for artifact usage"; what oras, podman and CRI-O
// make of annotations.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "runtime/image/documents/oci_documents.h"

namespace holdfast::runtime {

struct ArtifactPart {
  enum class Kind : uint8_t {
    kNothing,  // the empty descriptor, which only fills a place
    kFile,     // as it came
    kTree,     // unpacked, as a layer of an image
  };
  Kind kind = Kind::kNothing;
  std::string path;  // of a file: relative, without "." and ".."

  bool operator==(const ArtifactPart&) const = default;
};

// One for each layer of the manifest. kInvalidArgument for a title that is no place below the volume,
// and for two files of which only one could be there.
Result<std::vector<ArtifactPart>> PartsOfArtifact(const ImageManifest& manifest);

// What stands for a config.
ConfigDocument ConfigOfArtifact(const ImageManifest& manifest);

}  // namespace holdfast::runtime
