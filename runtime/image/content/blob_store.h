// SPDX-License-Identifier: Apache-2.0
// BlobStore: files by digest (blobs/sha256/<hex>) and the working directory of what is coming in.
//
// A blob is whole and right from the moment it has its name: it is written in an ingest directory,
// hashed there by us, synced and renamed. What a crash leaves in ingest/ is removed at Open.
// Thread-safe: no state but the two directories.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime {

// The file of an ingest directory that is to become the blob.
std::string StagedBlobName(const Digest& digest);
// nullopt: it is another file.
std::optional<Digest> DigestOfStagedBlob(const std::string& name);

// One working directory below ingest/, removed with everything in it on destruction.
class Ingest {
 public:
  Ingest(DirFd parent, std::string name, DirFd dir);
  Ingest(Ingest&&) noexcept = default;
  Ingest& operator=(Ingest&&) = delete;
  ~Ingest();
  int dir() const { return dir_.get(); }
  // A new empty file; names are ours.
  Result<UniqueFd> Create(const std::string& name) const;

 private:
  DirFd parent_;
  std::string name_;
  DirFd dir_;
};

// What is to be removed: moved below ingest/ under names of no meaning, and removed by the
// destructor, which may take long. Nothing is made for it, so that it works on a full disk. What
// cannot be removed then is removed at the next Open.
class Trash {
 public:
  explicit Trash(DirFd parent) : parent_(std::move(parent)) {}
  Trash(Trash&&) noexcept = default;
  Trash& operator=(Trash&&) = delete;
  ~Trash();
  // Takes `name` out of `directory`; absent is success.
  Result<void> Take(int directory, const std::string& name);

 private:
  DirFd parent_;
  std::vector<std::string> names_;
};

class BlobStore {
 public:
  // Makes blobs/sha256 and ingest below `root`, empties ingest; what cannot be removed is set aside
  // in the directory `aside` (sys/tree.h), or stays where not even that can be done.
  static Result<BlobStore> Open(int root, const std::string& aside);

  // `prefix`: of the directory's name.
  Result<Ingest> NewIngest(std::string_view prefix = "");
  Result<Trash> NewTrash() const;
  bool Has(const Digest& digest) const;
  Result<UniqueFd> OpenBlob(const Digest& digest) const;
  // Reads a small blob and checks its digest again.
  Result<std::string> ReadBlob(const Digest& digest, size_t limit) const;
  Result<uint64_t> SizeOf(const Digest& digest) const;

  // Moves <ingest>/<name>, whose content the caller has hashed to `digest` and synced, to its
  // place.
  Result<void> Commit(const Ingest& ingest, const std::string& name, const Digest& digest);
  // Makes the names that Commit() gave last.
  Result<void> SyncNames() const;

  Result<std::vector<Digest>> List() const;
  Result<void> Remove(const Digest& digest);

 private:
  BlobStore(DirFd blobs, DirFd ingests);
  DirFd blobs_;
  DirFd ingests_;
};

}  // namespace holdfast::runtime
