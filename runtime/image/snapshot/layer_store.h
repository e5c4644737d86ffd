// SPDX-License-Identifier: Apache-2.0
// LayerStore: unpacked layers, one plain directory per chain id, as overlayfs stacks them. A layer
// directory is whole from the moment it has its name and is never changed afterwards; images share
// it. Thread-safe: no state but the directory; names are short, since an overlay option string of
// old kernels is one page for all of them.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/image/content/blob_store.h"
#include "runtime/image/snapshot/unpacker.h"

namespace holdfast::runtime {

// A tree in an ingest directory, not yet committed.
struct StagedLayer {
  std::string name;  // within the ingest directory
  Digest diff_id;
};

class LayerStore {
 public:
  // `root` is an fd of `path`.
  static Result<LayerStore> Open(int root, const std::string& path);

  bool Has(const Digest& chain_id) const;
  std::string PathOf(const Digest& chain_id) const;  // absolute

  // Unpacks `source` as <ingest>/<name> on top of `lower` (lowest first, directories of layers:
  // committed, or staged in `ingest`), whose directories lend owner, mode, time and user.*
  // attributes to those that this layer only passes through.
  Result<StagedLayer> Stage(const Unpacker& unpacker, const Ingest& ingest, const std::string& name,
                            int source, const std::vector<DirFd>& lower,
                            const Unpacker::Meanwhile& meanwhile) const;
  Result<DirFd> OpenLayer(const Digest& chain_id) const;

  // The caller has synced the file system.
  Result<void> Commit(const Ingest& ingest, const std::string& name, const Digest& chain_id);
  Result<void> Sync() const;  // syncfs(2)

  // Names of directories, as NameOf gives them.
  Result<std::vector<std::string>> List() const;
  static std::string NameOf(const Digest& chain_id);
  // Moves it into `trash`, whose end removes it: a half-removed layer never has a layer's name.
  Result<void> Discard(const std::string& name, Trash& trash);

 private:
  LayerStore(DirFd layers, std::string path);
  DirFd layers_;
  std::string path_;
};

}  // namespace holdfast::runtime
