// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/store/archive_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/documents/oci_documents.h"
#include "runtime/image/documents/platform.h"
#include "runtime/image/documents/reference.h"

namespace holdfast::runtime {
namespace {

std::string BlobPath(const Digest& digest) { return "blobs/sha256/" + HexOf(digest); }

bool MayRunHere(const Platform& platform) { return RankOf(platform, HostPlatform()).has_value(); }

class Reader {
 public:
  Reader(const ArchiveContent& content, const Ingest& ingest, const ImageLimits& limits,
         const StoredSize& stored)
      : content_(content), ingest_(ingest), limits_(limits), stored_(stored) {}

  Result<std::vector<StagedImage>> ReadLayout() {
    ASSIGN_OR_RETURN(const std::string text, content_.Read("index.json", limits_.document_bytes));
    ASSIGN_OR_RETURN(const ImageIndex index, ParseIndex(text, "", limits_.images));
    std::map<Digest, StagedImage> by_target;
    std::vector<Digest> order;
    for (const Descriptor& entry : index.manifests) {
      if (!MayRunHere(entry.platform)) continue;
      if (!by_target.contains(entry.digest)) {
        ASSIGN_OR_RETURN(StagedImage image, ReadEntry(entry));
        by_target.emplace(entry.digest, std::move(image));
        order.push_back(entry.digest);
      }
      RETURN_IF_ERROR(AddName(by_target.at(entry.digest), entry));
    }
    if (order.empty() && !index.manifests.empty()) {
      return ChooseForHost(index.manifests, "the archive").error();
    }
    std::vector<StagedImage> images;
    for (const Digest& target : order) images.push_back(std::move(by_target.at(target)));
    return images;
  }

  Result<std::vector<StagedImage>> ReadDockerArchive() {
    ASSIGN_OR_RETURN(const std::string text,
                     content_.Read("manifest.json", limits_.document_bytes));
    ASSIGN_OR_RETURN(const auto entries, ParseDockerArchive(text, limits_.images, limits_.layers));
    std::vector<StagedImage> images;
    for (const DockerArchiveImage& entry : entries) {
      ASSIGN_OR_RETURN(StagedImage image, ReadDockerImage(entry));
      images.push_back(std::move(image));
    }
    return images;
  }

 private:
  // A bare word is a tag of a name that is not told; a person can give the name on import.
  static Result<void> AddName(StagedImage& image, const Descriptor& entry) {
    const auto full = entry.annotations.find("io.containerd.image.name");
    const auto ref = entry.annotations.find("org.opencontainers.image.ref.name");
    std::string name;
    if (full != entry.annotations.end()) {
      name = full->second;
    } else if (ref != entry.annotations.end() &&
               ref->second.find_first_of("/:") != std::string::npos) {
      name = ref->second;
    }
    if (name.empty()) return {};
    ASSIGN_OR_RETURN(const Reference reference, ParseReference(name));
    image.names.push_back(reference.Name());
    return {};
  }

  Result<std::string> ReadDocument(const Descriptor& descriptor) {
    ASSIGN_OR_RETURN(std::string text,
                     content_.Read(BlobPath(descriptor.digest), limits_.document_bytes));
    if (text.size() != descriptor.size || DigestOf(text) != descriptor.digest) {
      return InvalidArgument(
          StrCat("blob ", descriptor.digest.value, ": content does not match its digest or size"));
    }
    return text;
  }

  Result<StagedImage> ReadEntry(const Descriptor& entry) {
    Descriptor current = entry;
    for (int depth = 0; IsIndexType(current.media_type); ++depth) {
      if (depth == kMaxIndexDepth) return InvalidArgument("image index: nested too deeply");
      ASSIGN_OR_RETURN(const std::string text, ReadDocument(current));
      ASSIGN_OR_RETURN(const ImageIndex index,
                       ParseIndex(text, current.media_type, kMaxIndexEntries));
      ASSIGN_OR_RETURN(current, ChooseForHost(index.manifests, "the archive"));
    }
    if (!IsManifestType(current.media_type)) {
      return InvalidArgument(StrCat("manifest of unknown type ", current.media_type));
    }
    ASSIGN_OR_RETURN(StagedImage image, ReadManifest(current));
    image.target = entry.digest;
    return image;
  }

  Result<StagedImage> ReadManifest(const Descriptor& descriptor) {
    ASSIGN_OR_RETURN(const std::string text, ReadDocument(descriptor));
    ASSIGN_OR_RETURN(const ImageManifest manifest,
                     ParseManifest(text, descriptor.media_type, limits_.layers));
    ASSIGN_OR_RETURN(const std::string config_text, ReadDocument(manifest.config));
    ASSIGN_OR_RETURN(StagedImage image,
                     DescribeImage(descriptor.digest, manifest, config_text, limits_));
    RETURN_IF_ERROR(StageDocument(ingest_, text));
    RETURN_IF_ERROR(StageDocument(ingest_, config_text));
    image.size += text.size();
    for (const Descriptor& layer : manifest.layers) {
      ASSIGN_OR_RETURN(const Copied copied, StageLayer(layer.digest));
      if (copied.digest != layer.digest || copied.size != layer.size) {
        return InvalidArgument(
            StrCat("layer ", layer.digest.value, ": content does not match its digest or size"));
      }
    }
    return image;
  }

  Result<StagedImage> ReadDockerImage(const DockerArchiveImage& entry) {
    ASSIGN_OR_RETURN(const std::string config_text,
                     content_.Read(entry.config, limits_.document_bytes));
    StagedImage image;
    ASSIGN_OR_RETURN(image.config, ParseConfig(config_text, limits_.layers));
    if (image.config.diff_ids.size() != entry.layers.size()) {
      return InvalidArgument(StrCat("image config names ", image.config.diff_ids.size(),
                                    " layers, manifest.json ", entry.layers.size()));
    }
    std::vector<Descriptor> layers;
    for (const std::string& name : entry.layers) {
      ASSIGN_OR_RETURN(const Copied copied, StageFile(name));
      ASSIGN_OR_RETURN(std::string type, StagedLayerType(ingest_, copied.digest));
      layers.push_back({std::move(type), copied.digest, copied.size, {}, {}});
      image.layers.push_back(copied.digest);
      image.size += copied.size;
    }
    ASSIGN_OR_RETURN(image.id, StageDocument(ingest_, config_text));
    const Descriptor config{std::string(kOciConfig), image.id, config_text.size(), {}, {}};
    const std::string manifest = WriteManifest(config, layers);
    ASSIGN_OR_RETURN(image.manifest, StageDocument(ingest_, manifest));
    image.target = image.manifest;
    image.size += config_text.size() + manifest.size();
    for (const std::string& name : entry.names) {
      ASSIGN_OR_RETURN(const Reference reference, ParseReference(name));
      image.names.push_back(reference.Name());
    }
    return image;
  }

  Result<Copied> StageLayer(const Digest& digest) {
    const std::string name = BlobPath(digest);
    if (!content_.Has(name)) {
      if (const auto size = stored_(digest)) return Copied{.digest = digest, .size = *size};
    }
    return StageFile(name);
  }

  // A file that several layers or images share is copied once.
  Result<Copied> StageFile(const std::string& name) {
    if (const auto known = staged_.find(name); known != staged_.end()) return known->second;
    const std::string temporary = StrCat("copy-", staged_.size());
    ASSIGN_OR_RETURN(const Copied copied, content_.CopyTo(name, ingest_, temporary, limits_));
    const std::string blob = StagedBlobName(copied.digest);
    if (::renameat(ingest_.dir(), temporary.c_str(), ingest_.dir(), blob.c_str()) != 0) {
      return Error::FromErrno(errno, StrCat("rename to ", blob));
    }
    staged_.emplace(name, copied);
    return copied;
  }

  const ArchiveContent& content_;
  const Ingest& ingest_;
  const ImageLimits& limits_;
  const StoredSize& stored_;
  std::map<std::string, Copied> staged_;
};

Result<void> Rename(std::vector<StagedImage>& images, const std::string& reference) {
  if (images.size() != 1) {
    return InvalidArgument(
        StrCat("the archive holds ", images.size(), " images: one name cannot fit them"));
  }
  ASSIGN_OR_RETURN(const Reference parsed, ParseReference(reference));
  if (!parsed.digest.empty()) {
    return InvalidArgument("an image is named by repository and tag, not by a digest");
  }
  images[0].names = {parsed.Name()};
  return {};
}

}  // namespace

Result<StagedImage> DescribeImage(const Digest& digest, const ImageManifest& manifest,
                                  const std::string& config, const ImageLimits& limits) {
  StagedImage image;
  image.target = image.manifest = digest;
  image.size = config.size();
  for (const Descriptor& layer : manifest.layers) {
    image.layers.push_back(layer.digest);
    image.size += layer.size;
  }
  if (!manifest.artifact_type.empty()) {
    ASSIGN_OR_RETURN(image.parts, PartsOfArtifact(manifest));
    image.config = ConfigOfArtifact(manifest);
    image.id = digest;
    image.layers.push_back(manifest.config.digest);
    return image;
  }
  ASSIGN_OR_RETURN(image.config, ParseConfig(config, limits.layers));
  if (image.config.diff_ids.size() != manifest.layers.size()) {
    return InvalidArgument(StrCat("image config names ", image.config.diff_ids.size(),
                                  " layers, the manifest ", manifest.layers.size()));
  }
  image.id = manifest.config.digest;
  return image;
}

Result<Digest> StageDocument(const Ingest& ingest, const std::string& text) {
  const Digest digest = DigestOf(text);
  if (sys::ExistsAt(ingest.dir(), StagedBlobName(digest))) return digest;
  ASSIGN_OR_RETURN(UniqueFd fd, ingest.Create(StagedBlobName(digest)));
  RETURN_IF_ERROR(sys::WriteAll(fd.get(), text));
  return digest;
}

Result<std::string> StagedLayerType(const Ingest& ingest, const Digest& digest) {
  ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenAt(ingest.dir(), StagedBlobName(digest), O_RDONLY));
  ASSIGN_OR_RETURN(const std::string compression, CompressionOf(fd.get()));
  return StrCat("application/vnd.oci.image.layer.v1.tar", compression.empty() ? "" : "+",
                compression);
}

bool IsOciLayout(const ArchiveContent& content) {
  return content.Has("oci-layout") && content.Has("index.json");
}

Result<std::vector<StagedImage>> ReadArchive(const ArchiveContent& content, const Ingest& ingest,
                                             const ImageLimits& limits,
                                             const std::string& reference,
                                             const StoredSize& stored) {
  Reader reader(content, ingest, limits, stored);
  ASSIGN_OR_RETURN(std::vector<StagedImage> images,
                   IsOciLayout(content) ? reader.ReadLayout() : reader.ReadDockerArchive());
  if (images.empty()) return InvalidArgument("the archive holds no image");
  if (!reference.empty()) RETURN_IF_ERROR(Rename(images, reference));
  return images;
}

}  // namespace holdfast::runtime
