// SPDX-License-Identifier: Apache-2.0
// DiskImageStore: the ImageStore on local disk.
//
//   <root>/lock            held (flock) by the one process that uses the store
//   <root>/blobs/sha256/   manifests, configs and layers as they came, by digest
//   <root>/layers/         unpacked layers by chain id, shared between images
//   <root>/images, names   the catalog (catalog.h): what keeps the above alive
//   <root>/uses.json       when each image was needed last
//   <root>/partial/        what unfinished pulls have fetched (partial_blobs.h)
//   <root>/ingest/         work in progress; emptied at Open
//
// Written in this order: blobs, layers, image record, names; removed in the reverse. A crash in
// between leaves content that nothing names, which Open removes. Thread-safe: imports run in
// parallel up to their commit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "holdfast/interfaces/image_space.h"
#include "holdfast/interfaces/image_store.h"
#include "runtime/image/content/blob_store.h"
#include "runtime/image/content/partial_blobs.h"
#include "runtime/image/documents/signature_policy.h"
#include "runtime/image/snapshot/unpacker.h"
#include "runtime/image/store/archive_reader.h"
#include "runtime/image/store/arriving_layers.h"
#include "runtime/image/store/catalog.h"
#include "runtime/image/store/claims.h"

namespace holdfast::runtime {

struct ImageStoreOptions {
  std::string root;    // Instance::ImageDir(); made with mode 0700
  std::string aside;   // Instance::AsideDir(): for what a crash left and cannot be removed
  std::string helper;  // absolute path of holdfast-unpack
  ImageLimits limits;
  SignaturePolicy policy;  // which images may come in
  // Who uses the image ("container web of pod default/web"), "" when nobody does. Called under a
  // lock of the store: it must not call the store. May be empty.
  std::function<std::string(const Image&)> user_of;
  // What keeps the image whether it is used or not ("archive app.tar"), "" for nothing. As user_of.
  std::function<std::string(const Digest& id)> pinned_by;
};

// Where an image from a registry is put together.
struct StagingArea {
  const Ingest& ingest;
  const BlobStore& blobs;  // what is in the store already
  Claim& claim;            // asked for what of it is relied on
  const PartialBlobs& partial;
  const ImageLimits& limits;
  ArrivingLayers& layers;  // unpacks what has come
};

// An image as it came.
struct StoredImage {
  const BlobStore& blobs;
  ImageRecord record;
  std::vector<std::string> names;  // that it was asked for by; by its id: all that it has
  std::optional<Digest> target;    // what the name that it was asked for by stands for
  std::map<Digest, std::set<std::string>> repositories;  // Catalog::RepositoriesOfLayers()
};

class DiskImageStore : public ImageStore, public ImageSpace {
 public:
  // kConflict while another process has the store open.
  static Result<std::unique_ptr<DiskImageStore>> Open(ImageStoreOptions options);
  ~DiskImageStore() override;

  // Records that could not be read at Open; while there are any, nothing is swept.
  const std::vector<std::string>& warnings() const;

  Result<Image> Get(const std::string& reference) override;
  Result<std::vector<Image>> List() override;
  // A plain root tar becomes an image of one layer with `options.config`; the same tar and config
  // give the same id each time.
  Result<std::vector<Image>> Import(int fd, const ImportOptions& options) override;
  Result<std::vector<Image>> ImportDirectory(int dir_fd, const ImportOptions& options) override;
  // An image that `fill` brings: it says what is to come, puts the blobs that the store does not
  // have into the ingest directory, their digests checked, and waits until the layers are unpacked.
  using Fill = std::function<Result<void>(const StagingArea&)>;
  Result<Image> Add(const Fill& fill);
  // What the name stands for: the digest of an index or manifest. kNotFound.
  Result<Digest> TargetOf(const std::string& name);
  // `use` gets the image, of which nothing goes before it has returned.
  using Use = std::function<Result<void>(const StoredImage&)>;
  Result<void> Read(const std::string& reference, const Use& use);
  Result<void> Export(const std::string& reference, int fd) override;
  // A name removes that name; an id or a prefix of one removes the image with all its names. What
  // is pinned or being exported is refused as what is in use.
  Result<void> Remove(const std::string& reference) override;
  Result<void> Tag(const std::string& source, const std::string& target) override;

  Result<std::vector<ImageUsage>> Usage(Parts parts) override;
  Result<ImageDisk> Disk() override;
  Result<void> NoteUse(const std::vector<Digest>& ids, WallTime now) override;
  Result<PartialContent> Partial() override;
  Result<PartialContent> RemovePartial(std::chrono::seconds age) override;

 private:
  class Impl;
  explicit DiskImageStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::runtime
