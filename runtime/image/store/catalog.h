// SPDX-License-Identifier: Apache-2.0
// Catalog: which images and names there are; the roots that keep blobs and layers alive.
//
//   <root>/images/<manifest hex>.json
//       {"version":1,"manifest","config","layers":[…],"chain_ids":[…],"size","detected":unix seconds}
//   <root>/names/<32 hex of sha256(name)>.json
//       {"version":1,"name","manifest","target"}
//   <root>/uses.json
//       {"version":1,"used":{"<id>":unix seconds}}; lost, no image was ever used
//
// Each file is replaced as a whole, so a name moves from one image to another in one step. A name
// whose image is missing counts as absent. Not thread-safe: the store's locks are held around it.
// The disk and the memory are changed by calls of their own, the disk first, so that nobody who
// only reads the memory waits for the disk.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/image/content/blob_store.h"
#include "runtime/image/documents/oci_documents.h"

namespace holdfast::runtime {

struct ImageRecord {
  Digest manifest;
  Digest id;                      // of the config; of an artifact the manifest's
  std::vector<Digest> layers;     // blobs, lowest first; of an artifact its config too, as the last
  std::vector<Digest> chain_ids;  // unpacked, lowest first
  uint64_t size = 0;
  ConfigDocument config;  // read from its blob
  WallTime detected;      // when it came; zero: by a build that did not write it down

  bool IsArtifact() const { return id == manifest; }
};

struct NameRecord {
  std::string name;  // Reference::Name()
  Digest manifest;   // what runs
  Digest target;     // what the name stood for: the manifest, or the index it was chosen from
};

class Catalog {
 public:
  // A record that cannot be read is left alone and named in `warnings`.
  static Result<Catalog> Open(int root, const BlobStore& blobs, size_t document_limit,
                              std::vector<std::string>& warnings);

  const std::map<Digest, ImageRecord>& images() const { return images_; }  // by manifest
  const std::map<std::string, NameRecord>& names() const { return names_; }
  std::vector<std::string> NamesOf(const Digest& id) const;
  std::vector<Digest> ManifestsOf(const Digest& id) const;

  // On disk.
  Result<void> WriteImage(const ImageRecord& record);
  Result<void> WriteName(const NameRecord& record);
  Result<void> DropImage(const Digest& manifest);
  Result<void> DropName(const std::string& name);
  Result<void> WriteUses();
  // Those of images that are here, with `ids` used at `now`.
  std::map<Digest, WallTime> UsesWith(const std::vector<Digest>& ids, WallTime now) const;
  WallTime UsedAt(const Digest& id) const;  // zero: never
  // Of which repositories ("docker.io/library/nginx") there is an image with the layer.
  std::map<Digest, std::set<std::string>> RepositoriesOfLayers() const;
  // In memory.
  void SetUses(std::map<Digest, WallTime> uses) { uses_ = std::move(uses); }
  void AddImage(const ImageRecord& record) { images_.insert_or_assign(record.manifest, record); }
  void AddName(const NameRecord& record) { names_.insert_or_assign(record.name, record); }
  void ForgetImage(const Digest& manifest) { images_.erase(manifest); }
  void ForgetName(const std::string& name) { names_.erase(name); }

 private:
  Catalog(DirFd root, DirFd images, DirFd names);
  void ReadUses();
  Result<ImageRecord> ReadImage(const std::string& file, const BlobStore& blobs,
                                size_t limit) const;
  Result<NameRecord> ReadName(const std::string& file) const;

  DirFd root_;
  DirFd images_dir_;
  DirFd names_dir_;
  std::map<Digest, ImageRecord> images_;
  std::map<std::string, NameRecord> names_;
  std::map<Digest, WallTime> uses_;  // by id
};

}  // namespace holdfast::runtime
