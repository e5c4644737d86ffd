// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/store/importer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/image/content/copy.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/documents/reference.h"
#include "runtime/image/store/artifact_files.h"
#include "runtime/image/store/given_config.h"

namespace holdfast::runtime {
namespace {

constexpr const char* kSource = "source";
constexpr const char* kMembers = "members";

}  // namespace

Importer::Importer(const Unpacker& unpacker, const LayerStore& layers, const BlobStore& blobs,
                   const SignaturePolicy& policy, Claim& claim, Ingest ingest)
    : unpacker_(unpacker),
      layers_(layers),
      blobs_(blobs),
      policy_(policy),
      claim_(claim),
      ingest_(std::move(ingest)) {}

Result<void> Importer::FromStream(int fd, const ImportOptions& options) {
  // Before a byte of a large archive is read.
  if (options.config) RETURN_IF_ERROR(CheckGivenConfig(*options.config));
  ASSIGN_OR_RETURN(UniqueFd source, ingest_.Create(kSource));
  const ImageLimits& limits = unpacker_.limits();
  auto copied = CopyIntoStore(fd, source.get(), limits.archive_bytes, limits.reserve);
  if (!copied) return std::move(copied.error()).Wrap("import");
  ASSIGN_OR_RETURN(const bool archive, unpacker_.IsImageArchive(source.get()));
  if (!archive) return FromRootTar(source.get(), *copied, options);
  if (options.config) {
    return InvalidArgument(
        "this is an image archive, which brings its own entrypoint, command, environment and user: "
        "these can be given for a plain root tar only");
  }
  if (::mkdirat(ingest_.dir(), kMembers, 0700) != 0)
    return Error::FromErrno(errno, "mkdir members");
  ASSIGN_OR_RETURN(UniqueFd members, sys::OpenAt(ingest_.dir(), kMembers, O_RDONLY | O_DIRECTORY));
  ASSIGN_OR_RETURN(const ArchiveMembers list, unpacker_.Split(source.get(), members.get()));
  // The copy is not needed any more: free its space before the layers are unpacked.
  RETURN_IF_ERROR(sys::RemoveFileAt(ingest_.dir(), kSource));
  source.Reset();
  const auto content = SplitArchiveContent(DirFd(members.Release()), list);
  RETURN_IF_ERROR(policy_.AdmitImport(IsOciLayout(*content) ? ImportKind::kOciArchive
                                                            : ImportKind::kDockerArchive));
  return FromArchive(*content, options.reference);
}

Result<void> Importer::FromDirectory(DirFd directory, const ImportOptions& options) {
  if (options.config) {
    return InvalidArgument("an OCI layout brings its own config: options are for a root tar only");
  }
  const auto content = DirectoryContent(std::move(directory));
  if (!IsOciLayout(*content)) {
    return InvalidArgument(
        "directory is no OCI layout: it needs the files index.json and oci-layout");
  }
  RETURN_IF_ERROR(policy_.AdmitImport(ImportKind::kOciDirectory));
  return FromArchive(*content, options.reference);
}

Result<void> Importer::FromArchive(const ArchiveContent& content, const std::string& reference) {
  const StoredSize stored = [this](const Digest& digest) { return ClaimStored(digest); };
  ASSIGN_OR_RETURN(std::vector<StagedImage> staged,
                   ReadArchive(content, ingest_, unpacker_.limits(), reference, stored));
  for (StagedImage& image : staged) {
    RETURN_IF_ERROR(StageLayers(std::move(image), [](size_t) { return Result<void>(); }, {}));
  }
  return {};
}

std::optional<uint64_t> Importer::ClaimStored(const Digest& blob) {
  if (!claim_.Blob(blob)) return std::nullopt;
  const auto file = blobs_.OpenBlob(blob);
  struct stat info{};
  if (!file || ::fstat(file->get(), &info) != 0) return std::nullopt;
  return static_cast<uint64_t>(info.st_size);
}

Result<DirFd> Importer::OpenLayer(const Digest& chain_id) const {
  const auto staged = new_layers_.find(chain_id);
  if (staged == new_layers_.end()) return layers_.OpenLayer(chain_id);
  return sys::OpenDirAt(ingest_.dir(), staged->second);
}

Result<UniqueFd> Importer::OpenBlob(const Digest& digest) const {
  auto staged = sys::OpenAt(ingest_.dir(), StagedBlobName(digest), O_RDONLY);
  if (staged || staged.error().code() != Code::kNotFound) return staged;
  return blobs_.OpenBlob(digest);
}

template <class Make>
Result<void> Importer::StageTree(const Digest& chain_id, const Make& make) {
  if (claim_.Layer(chain_id) || new_layers_.contains(chain_id)) return {};
  const std::string name = StrCat("layer-", new_layers_.size());
  RETURN_IF_ERROR(make(name));
  new_layers_.emplace(chain_id, name);
  return {};
}

// The files as the last: what tars bring does not hide them.
Result<void> Importer::StageArtifact(StagedImage staged, const ArrivingLayers::Next& next,
                                     const Unpacker::Meanwhile& meanwhile) {
  std::vector<Digest> chain_ids;
  std::vector<DirFd> lower;
  std::vector<ArtifactFile> files;
  for (size_t i = 0; i < staged.parts.size(); ++i) {
    RETURN_IF_ERROR(next(i));
    const ArtifactPart& part = staged.parts[i];
    const Digest& blob = staged.layers[i];
    if (part.kind == ArtifactPart::Kind::kFile) files.push_back({part.path, blob});
    if (part.kind != ArtifactPart::Kind::kTree) continue;
    chain_ids.push_back(ChainIdOfTar(chain_ids.empty() ? Digest() : chain_ids.back(), blob));
    RETURN_IF_ERROR(StageTree(chain_ids.back(), [&](const std::string& name) -> Result<void> {
      ASSIGN_OR_RETURN(const UniqueFd tar, OpenBlob(blob));
      auto layer = layers_.Stage(unpacker_, ingest_, name, tar.get(), lower, meanwhile);
      if (layer) return {};
      return std::move(layer.error()).Wrap(StrCat("layer ", i + 1, " ", blob.value));
    }));
    ASSIGN_OR_RETURN(DirFd dir, OpenLayer(chain_ids.back()));
    lower.push_back(std::move(dir));
  }
  if (!files.empty()) {
    chain_ids.push_back(ChainIdOf(files));
    RETURN_IF_ERROR(StageTree(chain_ids.back(), [&](const std::string& name) {
      const auto open = [this](const Digest& blob) { return OpenBlob(blob); };
      return LinkFiles(files, open, ingest_, name, unpacker_.limits().reserve);
    }));
  }
  images_.push_back({std::move(staged), std::move(chain_ids)});
  return {};
}

// Lowest first: each layer needs those below, and its name says what they are.
Result<void> Importer::StageLayers(StagedImage staged, const ArrivingLayers::Next& next,
                                   const Unpacker::Meanwhile& meanwhile) {
  if (!staged.config.artifact_type.empty()) {
    return StageArtifact(std::move(staged), next, meanwhile);
  }
  std::vector<Digest> chain_ids;
  std::vector<DirFd> lower;
  Digest chain_id;
  for (size_t i = 0; i < staged.layers.size(); ++i) {
    RETURN_IF_ERROR(next(i));
    const Digest& diff_id = staged.config.diff_ids[i];
    chain_id = ChainId(chain_id, diff_id);
    RETURN_IF_ERROR(StageTree(chain_id, [&](const std::string& name) -> Result<void> {
      ASSIGN_OR_RETURN(UniqueFd blob, OpenBlob(staged.layers[i]));
      auto layer = layers_.Stage(unpacker_, ingest_, name, blob.get(), lower, meanwhile);
      if (!layer) {
        return std::move(layer.error()).Wrap(StrCat("layer ", i + 1, " ", staged.layers[i].value));
      }
      if (layer->diff_id != diff_id) {
        return InvalidArgument(StrCat("layer ", i + 1, " ", staged.layers[i].value,
                                      ": its content is ", layer->diff_id.value,
                                      ", the image config says ", diff_id.value));
      }
      return {};
    }));
    ASSIGN_OR_RETURN(DirFd dir, OpenLayer(chain_id));
    lower.push_back(std::move(dir));
    chain_ids.push_back(chain_id);
  }
  images_.push_back({std::move(staged), std::move(chain_ids)});
  return {};
}

Result<void> Importer::FromRootTar(int source, const Copied& blob, const ImportOptions& options) {
  RETURN_IF_ERROR(policy_.AdmitImport(ImportKind::kRootTar));
  StagedImage staged;
  if (!options.reference.empty()) {
    ASSIGN_OR_RETURN(const Reference reference, ParseReference(options.reference));
    if (!reference.digest.empty()) {
      return InvalidArgument("an image is named by repository and tag, not by a digest");
    }
    staged.names = {reference.Name()};
  }
  ASSIGN_OR_RETURN(const StagedLayer layer,
                   layers_.Stage(unpacker_, ingest_, "layer-0", source, {}, {}));
  if (layer.diff_id == DigestOf("")) {
    return InvalidArgument(
        "import: the stream is empty, so there is no image in it (did the program that should "
        "write it fail?)");
  }
  if (!claim_.Layer(layer.diff_id)) new_layers_.emplace(layer.diff_id, layer.name);
  if (::renameat(ingest_.dir(), kSource, ingest_.dir(), StagedBlobName(blob.digest).c_str()) != 0) {
    return Error::FromErrno(errno, "rename the root tar");
  }
  const std::string config = WriteConfig(options.config.value_or(ImageConfig()), layer.diff_id);
  ASSIGN_OR_RETURN(staged.config, ParseConfig(config, 1));
  ASSIGN_OR_RETURN(staged.id, StageDocument(ingest_, config));
  ASSIGN_OR_RETURN(std::string type, StagedLayerType(ingest_, blob.digest));
  const std::string manifest =
      WriteManifest({std::string(kOciConfig), staged.id, config.size(), {}, {}},
                    {{std::move(type), blob.digest, blob.size, {}, {}}});
  ASSIGN_OR_RETURN(staged.manifest, StageDocument(ingest_, manifest));
  staged.target = staged.manifest;
  staged.layers = {blob.digest};
  staged.size = blob.size + config.size() + manifest.size();
  images_.push_back({std::move(staged), {layer.diff_id}});
  return {};
}

}  // namespace holdfast::runtime
