// SPDX-License-Identifier: Apache-2.0
// Importer: from an archive to blobs and layer trees in one ingest directory, everything checked
// and nothing of the store changed. One object per import; single-thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_store.h"
#include "runtime/image/content/blob_store.h"
#include "runtime/image/documents/signature_policy.h"
#include "runtime/image/snapshot/layer_store.h"
#include "runtime/image/snapshot/unpacker.h"
#include "runtime/image/store/archive_reader.h"
#include "runtime/image/store/arriving_layers.h"
#include "runtime/image/store/claims.h"

namespace holdfast::runtime {

struct PreparedImage {
  StagedImage staged;
  std::vector<Digest> chain_ids;  // lowest first
};

class Importer {
 public:
  // All but `ingest` outlive it.
  Importer(const Unpacker& unpacker, const LayerStore& layers, const BlobStore& blobs,
           const SignaturePolicy& policy, Claim& claim, Ingest ingest);

  Result<void> FromStream(int fd, const ImportOptions& options);
  Result<void> FromDirectory(DirFd directory, const ImportOptions& options);

  // What somebody else puts into the ingest directory; a layer's blob may be in the store already.
  // `next`: called with each layer's number before anything of it is looked at, may end it. On a
  // thread of its own, that uses nothing else of this object meanwhile.
  Result<void> FromStaged(StagedImage staged, const ArrivingLayers::Next& next,
                          const Unpacker::Meanwhile& meanwhile) {
    return StageLayers(std::move(staged), next, meanwhile);
  }

  const Ingest& ingest() const { return ingest_; }
  const std::vector<PreparedImage>& images() const { return images_; }
  // Layers that the store did not have: chain id -> tree in the ingest directory.
  const std::map<Digest, std::string>& new_layers() const { return new_layers_; }

 private:
  Result<void> FromArchive(const ArchiveContent& content, const std::string& reference);
  Result<void> FromRootTar(int source, const Copied& blob, const ImportOptions& options);
  Result<void> StageLayers(StagedImage staged, const ArrivingLayers::Next& next,
                           const Unpacker::Meanwhile& meanwhile);
  Result<void> StageArtifact(StagedImage staged, const ArrivingLayers::Next& next,
                             const Unpacker::Meanwhile& meanwhile);
  // Makes it where the store has none of that name, nor this import: `make` fills <ingest>/<name>.
  template <class Make>
  Result<void> StageTree(const Digest& chain_id, const Make& make);
  Result<UniqueFd> OpenBlob(const Digest& digest) const;
  std::optional<uint64_t> ClaimStored(const Digest& blob);
  Result<DirFd> OpenLayer(const Digest& chain_id) const;

  const Unpacker& unpacker_;
  const LayerStore& layers_;
  const BlobStore& blobs_;
  const SignaturePolicy& policy_;
  Claim& claim_;
  Ingest ingest_;
  std::vector<PreparedImage> images_;
  std::map<Digest, std::string> new_layers_;
};

}  // namespace holdfast::runtime
