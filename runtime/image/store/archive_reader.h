// SPDX-License-Identifier: Apache-2.0
// What images an archive holds, and their blobs copied into an ingest directory, checked.
// Single-thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_store.h"
#include "runtime/image/content/blob_store.h"
#include "runtime/image/documents/artifact.h"
#include "runtime/image/documents/oci_documents.h"
#include "runtime/image/snapshot/unpacker.h"
#include "runtime/image/store/archive_content.h"

namespace holdfast::runtime {

// One image whose blobs lie in the ingest directory under "blob-<hex>", all digests verified, or in the store.
struct StagedImage {
  std::vector<std::string> names;  // normalised
  Digest target;                   // of the index or manifest that the archive names
  Digest manifest;
  Digest id;  // of an artifact the manifest's: many share one config, the empty one
  ConfigDocument config;
  std::vector<Digest> layers;       // lowest first; of an artifact its config too, as the last
  std::vector<ArtifactPart> parts;  // of an artifact: what the layers are
  uint64_t size = 0;
};

// What of an image its manifest alone says. `config`: the text of its config, whose digest the caller
// has checked, as he checks those of the layers.
Result<StagedImage> DescribeImage(const Digest& digest, const ImageManifest& manifest,
                                  const std::string& config, const ImageLimits& limits);

// Writes a document of our own as a staged blob.
Result<Digest> StageDocument(const Ingest& ingest, const std::string& text);

// The media type of a staged layer, by its content.
Result<std::string> StagedLayerType(const Ingest& ingest, const Digest& digest);

// The size of a blob that the store has, which stays until the import's end; nullopt: it has none such.
using StoredSize = std::function<std::optional<uint64_t>(const Digest&)>;

// Otherwise it is a docker-archive.
bool IsOciLayout(const ArchiveContent& content);

// OCI layout (index.json) or docker-archive (manifest.json). With `reference` the single image of
// the archive gets that name instead of its own. A layout may lack layers that are `stored`.
Result<std::vector<StagedImage>> ReadArchive(const ArchiveContent& content, const Ingest& ingest,
                                             const ImageLimits& limits,
                                             const std::string& reference,
                                             const StoredSize& stored);

}  // namespace holdfast::runtime
