// SPDX-License-Identifier: Apache-2.0
// PartialBlobs: what pulls that failed or were killed have fetched of blobs, so that the next pull
// goes on there. <root>/partial/<hex of the digest that it is to have>; nothing is known of the
// content before it was hashed (after a power cut its end may be anything). A file is moved here and
// away as a whole, so two pulls never write to one. Thread-safe: no state but the directory.
#pragma once

#include <chrono>
#include <string>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/interfaces/image_space.h"
#include "runtime/image/content/blob_store.h"

namespace holdfast::runtime {

class PartialBlobs {
 public:
  // Of the ingest directories whose blobs are kept.
  static constexpr char kIngestPrefix[] = "pull-";

  // Makes the directory below `root`, and takes over what killed pulls left in ingest/. Works on a
  // full and on a read-only disk where the directory is there.
  static Result<PartialBlobs> Open(int root);

  // What there is of `digest` becomes <ingest>/<name>. False: nothing.
  bool Take(const Digest& digest, const Ingest& ingest, const std::string& name) const;
  // 0: nothing.
  uint64_t SizeOf(const Digest& digest) const;
  // The blobs of a pull that has failed. What cannot be kept goes with the ingest directory.
  void KeepAll(const Ingest& ingest) const;

  Result<PartialContent> Content() const;
  // What was last written `age` ago or earlier, or in the future.
  Result<PartialContent> Remove(std::chrono::seconds age) const;

 private:
  explicit PartialBlobs(DirFd directory) : directory_(std::move(directory)) {}
  void KeepFrom(int ingest) const;

  DirFd directory_;
};

}  // namespace holdfast::runtime
