// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/store/disk_image_store.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>
#include <set>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/lock_file.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/image/content/blob_store.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/content/partial_blobs.h"
#include "runtime/image/documents/reference.h"
#include "runtime/image/snapshot/layer_sizes.h"
#include "runtime/image/snapshot/layer_store.h"
#include "runtime/image/store/catalog.h"
#include "runtime/image/store/claims.h"
#include "runtime/image/store/exporter.h"
#include "runtime/image/store/importer.h"

namespace holdfast::runtime {
namespace {

Result<UniqueFd> LockStore(int root, const std::string& path) {
  auto lock = sys::TakeLock(root, "lock");
  if (!lock && lock.error().code() == Code::kConflict) {
    return Conflict(StrCat("image store ", path, " is in use by another process"));
  }
  return WithContext(std::move(lock), StrCat("image store ", path));
}

// As many as lists of images show.
constexpr size_t kShownIdDigits = 12;

// Whether another pull could make use of what this one has fetched. Not when it was refused, nor on a
// disk that is too full: it would keep others from it.
bool IsWorthKeeping(const Error& error) {
  return error.code() != Code::kInvalidArgument && error.code() != Code::kResourceExhausted;
}

// An id's digits without "sha256:".
std::string_view HexText(const std::string& text) {
  constexpr std::string_view kScheme = "sha256:";
  return std::string_view(text).substr(text.starts_with(kScheme) ? kScheme.size() : 0);
}

bool IsHexText(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

}  // namespace

class DiskImageStore::Impl {
 public:
  Impl(ImageStoreOptions options, UniqueFd lock, BlobStore blobs, PartialBlobs partial,
       LayerStore layers, Catalog catalog, std::vector<std::string> warnings)
      : options_(std::move(options)),
        unpacker_(options_.helper, options_.limits),
        lock_(std::move(lock)),
        blobs_(std::move(blobs)),
        partial_(std::move(partial)),
        layers_(std::move(layers)),
        catalog_(std::move(catalog)),
        warnings_(std::move(warnings)) {}

  const std::vector<std::string>& warnings() const { return warnings_; }
  const ImageLimits& limits() const { return options_.limits; }

  Result<Image> Get(const std::string& reference) {
    const std::lock_guard hold(mutex_);
    ASSIGN_OR_RETURN(const Found found, Find(reference));
    return Describe(found.id);
  }

  Result<std::vector<Image>> List() {
    const std::lock_guard hold(mutex_);
    std::set<Digest> ids;
    for (const auto& [manifest, record] : catalog_.images()) ids.insert(record.id);
    std::vector<Image> images;
    for (const Digest& id : ids) images.push_back(Describe(id));
    return images;
  }

  template <class Read>
  Result<std::vector<Image>> Import(Read read) {
    UnderWay under_way(*this);
    ASSIGN_OR_RETURN(Ingest ingest, blobs_.NewIngest());
    return Import(under_way, std::move(ingest), read);
  }

  Result<Image> Add(const Fill& fill) {
    UnderWay under_way(*this);
    ASSIGN_OR_RETURN(Ingest ingest, blobs_.NewIngest(PartialBlobs::kIngestPrefix));
    const auto bring = [&](Importer& importer) -> Result<void> {
      ArrivingLayers layers([&](StagedImage staged, const auto& next, const auto& meanwhile) {
        return importer.FromStaged(std::move(staged), next, meanwhile);
      });
      return fill(
          {importer.ingest(), blobs_, under_way.claim(), partial_, options_.limits, layers});
    };
    auto images = Import(under_way, std::move(ingest), [&](Importer& importer) {
      auto done = bring(importer);
      if (!done && IsWorthKeeping(done.error())) partial_.KeepAll(importer.ingest());
      return done;
    });
    if (!images) return std::move(images.error());
    return std::move(images->front());
  }

  Result<Digest> TargetOf(const std::string& name) {
    const std::lock_guard hold(mutex_);
    const auto found = catalog_.names().find(name);
    if (found == catalog_.names().end()) return NotFound(StrCat("no image ", name));
    return found->second.target;
  }

  Result<void> Read(const std::string& reference, const Use& use) {
    StoredImage image{blobs_, {}, {}, {}, {}};
    UnderWay under_way(*this);
    std::optional<Reading> reading;
    {
      const std::lock_guard change(changing_);  // not in the middle of its removal
      const std::lock_guard hold(mutex_);
      ASSIGN_OR_RETURN(const Found found, Find(reference));
      reading.emplace(*this, found.id);
      image.record = catalog_.images().at(found.manifest);
      image.names = found.by_name ? found.names : Describe(found.id).repo_tags;
      if (found.by_name) image.target = catalog_.names().at(found.names.front()).target;
      image.repositories = catalog_.RepositoriesOfLayers();
    }
    under_way.claim().Blob(image.record.manifest);
    under_way.claim().Blob(image.record.id);
    for (const Digest& layer : image.record.layers) under_way.claim().Blob(layer);
    return use(image);
  }

  Result<void> Tag(const std::string& source, const std::string& target) {
    ASSIGN_OR_RETURN(const Reference reference, ParseReference(target));
    if (!reference.digest.empty()) {
      return InvalidArgument("an image is named by repository and tag, not by a digest");
    }
    const std::lock_guard change(changing_);
    ASSIGN_OR_RETURN(const Found found, Find(source));
    // What the name that was given stands for: an index keeps its digest.
    const Digest stood_for =
        found.names.empty() ? found.manifest : catalog_.names().at(found.names.front()).target;
    const NameRecord record{reference.Name(), found.manifest, stood_for};
    RETURN_IF_ERROR(catalog_.WriteName(record));
    const std::lock_guard hold(mutex_);
    catalog_.AddName(record);
    return {};
  }

  Result<void> Remove(const std::string& reference) {
    std::optional<Trash> trash;  // emptied after the lock is given up
    const std::lock_guard change(changing_);
    ASSIGN_OR_RETURN(const Found found, Find(reference));
    if (!found.by_name && HexText(reference).size() < kShownIdDigits) {
      return InvalidArgument(StrCat("\"", reference, "\" is the beginning of the id of an image, ",
                                    "and too short to remove it by: give its name, or ",
                                    kShownIdDigits, " digits"));
    }
    const size_t named = catalog_.NamesOf(found.id).size();
    const bool last = !found.by_name || found.names.size() == named;
    if (last) {
      RETURN_IF_ERROR(CheckUnused(found.id));
    }
    for (const std::string& name : last ? catalog_.NamesOf(found.id) : found.names) {
      RETURN_IF_ERROR(catalog_.DropName(name));
      const std::lock_guard hold(mutex_);
      catalog_.ForgetName(name);
    }
    if (!last) return {};
    for (const Digest& manifest : catalog_.ManifestsOf(found.id)) {
      RETURN_IF_ERROR(catalog_.DropImage(manifest));
      const std::lock_guard hold(mutex_);
      catalog_.ForgetImage(manifest);
    }
    sweep_due_ = true;
    return Sweep(trash);
  }

  Result<std::vector<ImageUsage>> Usage(Parts parts) {
    std::vector<ImageUsage> usages;
    std::vector<std::vector<ImageRecord>> records;
    {
      const std::lock_guard hold(mutex_);
      std::map<Digest, std::vector<ImageRecord>> by_id;
      for (const auto& [manifest, record] : catalog_.images()) by_id[record.id].push_back(record);
      for (auto& [id, of_image] : by_id) {
        ImageUsage usage;
        usage.image = Describe(id);
        usage.used = catalog_.UsedAt(id);
        for (const ImageRecord& record : of_image) {
          usage.detected = std::max(usage.detected, record.detected);
        }
        usages.push_back(std::move(usage));
        records.push_back(std::move(of_image));
      }
    }
    if (parts == Parts::kNone) return usages;
    // Counting waits for the disk. What goes meanwhile takes nothing.
    for (size_t i = 0; i < usages.size(); ++i) {
      for (const ImageRecord& record : records[i]) Measure(record, usages[i].parts);
    }
    return usages;
  }

  Result<ImageDisk> Disk() const {
    struct statvfs st{};
    if (::fstatvfs(lock_.get(), &st) != 0) return Error::FromErrno(errno, "statfs image store");
    return ImageDisk{st.f_blocks * st.f_frsize, st.f_bavail * st.f_frsize, st.f_files, st.f_favail};
  }

  Result<void> NoteUse(const std::vector<Digest>& ids, WallTime now) {
    const std::lock_guard change(changing_);
    const std::map<Digest, WallTime> uses = catalog_.UsesWith(ids, now);
    {
      const std::lock_guard hold(mutex_);
      catalog_.SetUses(uses);
    }
    return catalog_.WriteUses();
  }

  Result<PartialContent> Partial() const { return partial_.Content(); }
  Result<PartialContent> RemovePartial(std::chrono::seconds age) { return partial_.Remove(age); }

  // What cannot be removed now (a read-only disk) goes at the next removal or Open.
  void SweepAtOpen() {
    std::optional<Trash> trash;
    const std::lock_guard change(changing_);
    sweep_due_ = true;
    (void)Sweep(trash);
  }

 private:
  struct Found {
    Digest id;
    Digest manifest;                 // the one that was asked for
    std::vector<std::string> names;  // that match the reference
    bool by_name = false;
  };

  // An import, pull or export: what it claimed stays until its end, and goes then if nothing names
  // it.
  class UnderWay {
   public:
    explicit UnderWay(Impl& store) : store_(store) { claim_.emplace(store.claims_); }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;
    ~UnderWay() {
      claim_.reset();
      store_.SweepIfDue();
    }
    Claim& claim() { return *claim_; }

   private:
    Impl& store_;
    std::optional<Claim> claim_;
  };

  // An image that is being exported or pushed. Made with mutex_ held.
  class Reading {
   public:
    Reading(Impl& store, Digest id) : store_(store), id_(std::move(id)) {
      store_.read_.insert(id_);
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    ~Reading() {
      const std::lock_guard hold(store_.mutex_);
      store_.read_.erase(store_.read_.find(id_));
    }

   private:
    Impl& store_;
    const Digest id_;
  };

  // ---- looking up (either lock held) ----

  Result<Found> FindName(const Reference& reference) const {
    Found found;
    found.by_name = true;
    for (const auto& [name, record] : catalog_.names()) {
      const bool same = name == reference.Name();
      const bool by_digest =
          !reference.digest.empty() &&
          (record.target.value == reference.digest || record.manifest.value == reference.digest) &&
          RepositoryOf(name) == reference.repository;
      if (!same && !by_digest) continue;
      found.names.push_back(name);
      found.manifest = record.manifest;
      found.id = catalog_.images().at(record.manifest).id;
    }
    if (found.names.empty()) return NotFound(StrCat("no image ", reference.Name()));
    return found;
  }

  Result<Found> FindId(std::string_view prefix) const {
    Found found;
    for (const auto& [manifest, record] : catalog_.images()) {
      if (!HexOf(record.id).starts_with(prefix)) continue;
      if (!found.id.empty() && found.id != record.id) {
        return InvalidArgument(StrCat("image id ", prefix, " is ambiguous: give more digits"));
      }
      found.id = record.id;
      found.manifest = manifest;
    }
    if (found.id.empty()) return NotFound(StrCat("no image with id ", prefix));
    return found;
  }

  // Names win over ids, so that an image called "cafe" can be had; a whole id is never a name.
  Result<Found> Find(const std::string& text) const {
    const std::string_view hex = HexText(text);
    if (IsHexText(hex) && (hex.size() == 64 || hex.size() != text.size())) return FindId(hex);
    const auto reference = ParseReference(text);
    if (!reference) return reference.error();
    auto found = FindName(*reference);
    if (!found && IsHexText(text)) {
      auto by_id = FindId(text);
      if (by_id || by_id.error().code() != Code::kNotFound) return by_id;
    }
    return found;
  }

  static std::string RepositoryOf(const std::string& name) {
    const auto reference = ParseReference(name);
    return reference ? reference->repository : std::string();
  }

  Image Describe(const Digest& id) const {
    Image image;
    image.id = id;
    const ImageRecord& record = catalog_.images().at(catalog_.ManifestsOf(id).front());
    image.size_bytes = record.size;
    image.created = record.config.created;
    image.os = record.config.platform.os;
    image.architecture = record.config.platform.architecture;
    image.config = record.config.config;
    image.artifact_type = record.config.artifact_type;
    image.pinned = options_.pinned_by && !options_.pinned_by(id).empty();
    for (const Digest& chain_id : record.chain_ids)
      image.layers.push_back(layers_.PathOf(chain_id));
    std::set<std::string> digests;
    for (const std::string& name : catalog_.NamesOf(id)) {
      if (name.find('@') == std::string::npos) image.repo_tags.push_back(name);
      digests.insert(StrCat(RepositoryOf(name), "@", catalog_.names().at(name).target.value));
    }
    image.repo_digests.assign(digests.begin(), digests.end());
    return image;
  }

  Result<void> CheckUnused(const Digest& id) {
    std::string user;
    {
      const std::lock_guard hold(mutex_);
      if (read_.contains(id)) user = "an export or a push";
    }
    if (user.empty() && options_.pinned_by) user = options_.pinned_by(id);
    if (user.empty() && options_.user_of) user = options_.user_of(Describe(id));
    if (user.empty()) return {};
    return Conflict(StrCat("image ", id.value, " is in use by ", user));
  }

  void Measure(const ImageRecord& record, std::map<std::string, uint64_t>& parts) {
    std::vector<Digest> blobs = record.layers;
    blobs.push_back(record.manifest);
    blobs.push_back(record.id);
    for (const Digest& digest : blobs) {
      if (const auto size = blobs_.SizeOf(digest)) parts[Claims::Part(digest)] = *size;
    }
    for (const Digest& chain_id : record.chain_ids) {
      parts[Claims::LayerPart(LayerStore::NameOf(chain_id))] = layer_sizes_.Of(layers_, chain_id);
    }
  }

  template <class Read>
  Result<std::vector<Image>> Import(UnderWay& under_way, Ingest ingest, const Read& read) {
    Importer importer(unpacker_, layers_, blobs_, options_.policy, under_way.claim(),
                      std::move(ingest));
    RETURN_IF_ERROR(read(importer));
    // All the content of new layers and blobs reaches the disk before anything is named.
    RETURN_IF_ERROR(layers_.Sync());
    HOLDFAST_PAUSE_POINT("image.import-staged");
    const std::lock_guard change(changing_);
    auto added = Commit(importer);
    if (!added) sweep_due_ = true;
    return added;
  }

  // ---- changing (changing_ held) ----

  Result<std::vector<Image>> Commit(const Importer& importer) {
    for (const PreparedImage& image : importer.images()) {
      RETURN_IF_ERROR(CommitBlobs(importer.ingest(), image.staged));
    }
    RETURN_IF_ERROR(blobs_.SyncNames());
    for (const auto& [chain_id, name] : importer.new_layers()) {
      RETURN_IF_ERROR(layers_.Commit(importer.ingest(), name, chain_id));
    }
    std::vector<Image> added;
    for (const PreparedImage& image : importer.images()) {
      RETURN_IF_ERROR(Record(image));
    }
    for (const PreparedImage& image : importer.images()) {
      added.push_back(Describe(image.staged.id));
      // Not those that it had before.
      std::erase_if(added.back().repo_tags, [&](const std::string& name) {
        const auto& given = image.staged.names;
        return std::find(given.begin(), given.end(), name) == given.end();
      });
    }
    return added;
  }

  Result<void> CommitBlobs(const Ingest& ingest, const StagedImage& image) {
    std::vector<Digest> digests = image.layers;
    digests.push_back(image.id);
    digests.push_back(image.manifest);
    for (const Digest& digest : digests) {
      RETURN_IF_ERROR(blobs_.Commit(ingest, StagedBlobName(digest), digest));
    }
    return {};
  }

  Result<void> Record(const PreparedImage& image) {
    const StagedImage& staged = image.staged;
    if (!catalog_.images().contains(staged.manifest)) {
      const ImageRecord record{staged.manifest, staged.id,     staged.layers,       image.chain_ids,
                               staged.size,     staged.config, SystemClock().Wall()};
      RETURN_IF_ERROR(catalog_.WriteImage(record));
      const std::lock_guard hold(mutex_);
      catalog_.AddImage(record);
    }
    for (const std::string& name : staged.names) {
      const NameRecord record{name, staged.manifest, staged.target};
      RETURN_IF_ERROR(catalog_.WriteName(record));
      const std::lock_guard hold(mutex_);
      catalog_.AddName(record);
    }
    return {};
  }

  void SweepIfDue() {
    std::optional<Trash> trash;
    const std::lock_guard change(changing_);
    // What is left now goes at the next removal or Open.
    if (sweep_due_) (void)Sweep(trash);
  }

  // Removes blobs and layers that no image record names and nothing under way relies on. Blobs
  // first: on a full disk they make the room that a file system may need to rename a layer.
  Result<void> Sweep(std::optional<Trash>& trash) {
    if (!warnings_.empty()) return {};
    std::set<std::string> named;
    for (const auto& [manifest, record] : catalog_.images()) {
      named.insert(Claims::Part(manifest));
      named.insert(Claims::Part(record.id));
      for (const Digest& layer : record.layers) named.insert(Claims::Part(layer));
      for (const Digest& chain_id : record.chain_ids) {
        named.insert(Claims::LayerPart(LayerStore::NameOf(chain_id)));
      }
    }
    bool all = true;
    ASSIGN_OR_RETURN(const std::vector<Digest> blobs, blobs_.List());
    for (const Digest& digest : blobs) {
      const std::string part = Claims::Part(digest);
      if (named.contains(part)) continue;
      ASSIGN_OR_RETURN(const bool gone,
                       claims_.RemoveUnclaimed(part, [&] { return blobs_.Remove(digest); }));
      all = all && gone;
    }
    ASSIGN_OR_RETURN(Trash bin, blobs_.NewTrash());
    trash.emplace(std::move(bin));
    ASSIGN_OR_RETURN(const std::vector<std::string> layers, layers_.List());
    for (const std::string& name : layers) {
      const std::string part = Claims::LayerPart(name);
      if (named.contains(part)) continue;
      ASSIGN_OR_RETURN(const bool gone, claims_.RemoveUnclaimed(
                                            part, [&] { return layers_.Discard(name, *trash); }));
      all = all && gone;
    }
    sweep_due_ = !all;
    return {};
  }

  const ImageStoreOptions options_;
  const Unpacker unpacker_;
  const UniqueFd lock_;
  BlobStore blobs_;
  PartialBlobs partial_;
  LayerStore layers_;
  LayerSizes layer_sizes_;
  Claims claims_{blobs_, layers_};
  // Held by whoever changes the store, also while it waits for the disk; guards sweep_due_. Taken
  // before mutex_.
  std::mutex changing_;
  // Held for moments: a pod's start asks for its image while an import is at the disk. Who changes
  // catalog_ holds both, who reads it one of them.
  std::mutex mutex_;
  Catalog catalog_;
  const std::vector<std::string> warnings_;
  std::multiset<Digest> read_;  // right now; guarded by mutex_
  bool sweep_due_ = false;
};

DiskImageStore::DiskImageStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DiskImageStore::~DiskImageStore() = default;

Result<std::unique_ptr<DiskImageStore>> DiskImageStore::Open(ImageStoreOptions options) {
  ASSIGN_OR_RETURN(DirFd root, sys::MakeDirs(AT_FDCWD, options.root, 0700));
  ASSIGN_OR_RETURN(UniqueFd lock, LockStore(root.get(), options.root));
  // Before what a killed pull left in its ingest directory is removed.
  ASSIGN_OR_RETURN(PartialBlobs partial, PartialBlobs::Open(root.get()));
  ASSIGN_OR_RETURN(BlobStore blobs, BlobStore::Open(root.get(), options.aside));
  ASSIGN_OR_RETURN(LayerStore layers, LayerStore::Open(root.get(), options.root));
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(Catalog catalog,
                   Catalog::Open(root.get(), blobs, options.limits.document_bytes, warnings));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(lock), std::move(blobs),
                                     std::move(partial), std::move(layers), std::move(catalog),
                                     std::move(warnings));
  impl->SweepAtOpen();
  return std::unique_ptr<DiskImageStore>(new DiskImageStore(std::move(impl)));
}

const std::vector<std::string>& DiskImageStore::warnings() const { return impl_->warnings(); }
Result<Image> DiskImageStore::Get(const std::string& reference) { return impl_->Get(reference); }
Result<std::vector<Image>> DiskImageStore::List() { return impl_->List(); }

Result<std::vector<Image>> DiskImageStore::Import(int fd, const ImportOptions& options) {
  return impl_->Import([&](Importer& importer) { return importer.FromStream(fd, options); });
}

Result<std::vector<Image>> DiskImageStore::ImportDirectory(int dir_fd,
                                                           const ImportOptions& options) {
  return impl_->Import([&](Importer& importer) -> Result<void> {
    ASSIGN_OR_RETURN(DirFd directory, sys::OpenDirAt(dir_fd, "."));
    return importer.FromDirectory(std::move(directory), options);
  });
}

Result<Image> DiskImageStore::Add(const Fill& fill) { return impl_->Add(fill); }

Result<Digest> DiskImageStore::TargetOf(const std::string& name) { return impl_->TargetOf(name); }

Result<void> DiskImageStore::Read(const std::string& reference, const Use& use) {
  return impl_->Read(reference, use);
}

Result<void> DiskImageStore::Export(const std::string& reference, int fd) {
  return impl_->Read(reference, [&](const StoredImage& image) {
    return ExportImage(image.blobs, image.record, image.names, impl_->limits().document_bytes, fd);
  });
}

Result<void> DiskImageStore::Remove(const std::string& reference) {
  return impl_->Remove(reference);
}

Result<void> DiskImageStore::Tag(const std::string& source, const std::string& target) {
  return impl_->Tag(source, target);
}

Result<std::vector<ImageUsage>> DiskImageStore::Usage(Parts parts) { return impl_->Usage(parts); }
Result<ImageDisk> DiskImageStore::Disk() { return impl_->Disk(); }

Result<void> DiskImageStore::NoteUse(const std::vector<Digest>& ids, WallTime now) {
  return impl_->NoteUse(ids, now);
}

Result<PartialContent> DiskImageStore::Partial() { return impl_->Partial(); }

Result<PartialContent> DiskImageStore::RemovePartial(std::chrono::seconds age) {
  return impl_->RemovePartial(age);
}

}  // namespace holdfast::runtime
