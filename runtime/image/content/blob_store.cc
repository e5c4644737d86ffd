// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/content/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/tree.h"
#include "runtime/image/content/digest.h"

namespace holdfast::runtime {
namespace {

constexpr std::string_view kStagedBlob = "blob-";

std::string UniqueName() { return NewContainerId().value.substr(0, 16); }

}  // namespace

std::string StagedBlobName(const Digest& digest) { return StrCat(kStagedBlob, HexOf(digest)); }

std::optional<Digest> DigestOfStagedBlob(const std::string& name) {
  if (!name.starts_with(kStagedBlob)) return std::nullopt;
  auto digest = ParseDigest("sha256:" + name.substr(kStagedBlob.size()));
  return digest ? std::optional(std::move(*digest)) : std::nullopt;
}

Ingest::Ingest(DirFd parent, std::string name, DirFd dir)
    : parent_(std::move(parent)), name_(std::move(name)), dir_(std::move(dir)) {}

Ingest::~Ingest() {
  // What cannot be removed now is removed at the next Open.
  if (parent_.valid()) (void)sys::RemoveTreeAt(parent_.get(), name_);
}

Result<UniqueFd> Ingest::Create(const std::string& name) const {
  return sys::OpenAt(dir_.get(), name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
}

Trash::~Trash() {
  if (!parent_.valid()) return;
  for (const std::string& name : names_) (void)sys::RemoveTreeAt(parent_.get(), name);
}

Result<void> Trash::Take(int directory, const std::string& name) {
  std::string unique = UniqueName();
  if (::renameat(directory, name.c_str(), parent_.get(), unique.c_str()) != 0) {
    if (errno == ENOENT) return {};
    return Error::FromErrno(errno, StrCat("rename ", name, " away"));
  }
  names_.push_back(std::move(unique));
  return {};
}

BlobStore::BlobStore(DirFd blobs, DirFd ingests)
    : blobs_(std::move(blobs)), ingests_(std::move(ingests)) {}

Result<BlobStore> BlobStore::Open(int root, const std::string& aside) {
  ASSIGN_OR_RETURN(DirFd blobs, sys::MakeDirs(root, "blobs/sha256", 0700));
  ASSIGN_OR_RETURN(DirFd ingests, sys::MakeDirs(root, "ingest", 0700));
  ASSIGN_OR_RETURN(const std::vector<std::string> left, sys::ListDirAt(ingests.get(), "."));
  // Whoever looks after `aside` tells what is there. On a disk that is full or read-only it may
  // stay: names are never used twice, and the next Open tries again.
  for (const std::string& name : left) {
    (void)sys::RemoveOrSetAside(ingests.get(), name, aside);
  }
  return BlobStore(std::move(blobs), std::move(ingests));
}

Result<Ingest> BlobStore::NewIngest(std::string_view prefix) {
  const std::string name = StrCat(prefix, UniqueName());
  if (::mkdirat(ingests_.get(), name.c_str(), 0700) != 0) {
    return Error::FromErrno(errno, StrCat("mkdir ingest/", name));
  }
  ASSIGN_OR_RETURN(DirFd dir, sys::OpenDirAt(ingests_.get(), name));
  ASSIGN_OR_RETURN(DirFd parent, sys::OpenDirAt(ingests_.get(), "."));
  return Ingest(std::move(parent), name, std::move(dir));
}

Result<Trash> BlobStore::NewTrash() const {
  ASSIGN_OR_RETURN(DirFd parent, sys::OpenDirAt(ingests_.get(), "."));
  return Trash(std::move(parent));
}

bool BlobStore::Has(const Digest& digest) const {
  return sys::ExistsAt(blobs_.get(), HexOf(digest));
}

Result<UniqueFd> BlobStore::OpenBlob(const Digest& digest) const {
  return WithContext(sys::OpenAt(blobs_.get(), HexOf(digest), O_RDONLY | O_NOFOLLOW), "blob");
}

Result<std::string> BlobStore::ReadBlob(const Digest& digest, size_t limit) const {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenBlob(digest));
  ASSIGN_OR_RETURN(std::string data, sys::ReadFd(fd.get(), limit));
  if (DigestOf(data) != digest) {
    return Internal(StrCat("blob ", digest.value, " is damaged: its content has another digest"));
  }
  return data;
}

Result<uint64_t> BlobStore::SizeOf(const Digest& digest) const {
  struct stat st{};
  if (::fstatat(blobs_.get(), HexOf(digest).c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
    return Error::FromErrno(errno, StrCat("stat blob ", digest.value));
  }
  return static_cast<uint64_t>(st.st_size);
}

Result<void> BlobStore::Commit(const Ingest& ingest, const std::string& name,
                               const Digest& digest) {
  if (Has(digest)) return {};
  if (::renameat(ingest.dir(), name.c_str(), blobs_.get(), HexOf(digest).c_str()) != 0) {
    return Error::FromErrno(errno, StrCat("rename to blob ", digest.value));
  }
  HOLDFAST_PAUSE_POINT("image.blob-named");
  return {};
}

Result<void> BlobStore::SyncNames() const {
  ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenAt(blobs_.get(), ".", O_RDONLY | O_DIRECTORY));
  if (::fsync(fd.get()) != 0) return Error::FromErrno(errno, "fsync directory of blobs");
  HOLDFAST_PAUSE_POINT("image.blobs-synced");
  return {};
}

Result<std::vector<Digest>> BlobStore::List() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(blobs_.get(), "."));
  std::vector<Digest> digests;
  for (const std::string& name : names) {
    if (auto digest = ParseDigest("sha256:" + name); digest) digests.push_back(std::move(*digest));
  }
  return digests;
}

Result<void> BlobStore::Remove(const Digest& digest) {
  return sys::RemoveFileAt(blobs_.get(), HexOf(digest));
}

}  // namespace holdfast::runtime
