// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/image_pull.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/content/room.h"
#include "runtime/image/documents/oci_documents.h"
#include "runtime/image/documents/platform.h"
#include "runtime/image/pull/media_type.h"

namespace holdfast::runtime {
namespace {

constexpr char kAccept[] =
    "application/vnd.docker.distribution.manifest.v2+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, */*";

Result<void> CheckDocument(const Descriptor& descriptor, const std::string& text) {
  if (text.size() == descriptor.size && DigestOf(text) == descriptor.digest) return {};
  return InvalidArgument(
      StrCat("blob ", descriptor.digest.value, ": content does not match its digest or size"));
}

// What another image brought already.
std::optional<std::string> StoredDocument(const Descriptor& descriptor, const StagingArea& area) {
  if (!area.claim.Blob(descriptor.digest)) return std::nullopt;
  auto text = area.blobs.ReadBlob(descriptor.digest, area.limits.document_bytes);
  return text ? std::optional(std::move(*text)) : std::nullopt;
}

Result<void> CheckSize(const Descriptor& descriptor, const StagingArea& area) {
  if (descriptor.size <= area.limits.document_bytes) return {};
  return Error(Code::kResourceExhausted,
               StrCat("blob ", descriptor.digest.value, ": ", descriptor.size,
                      " bytes, the limit for documents is ", area.limits.document_bytes));
}

// An image without an index says in its config what it is for.
Result<void> CheckPlatform(const Platform& platform) {
  Descriptor image;
  image.platform = platform;
  auto chosen = ChooseForHost({image}, "the image");
  if (!chosen) return std::move(chosen.error());
  return {};
}

// Each host in turn until one has it. The last error is the registry's own.
template <class T, class Ask>
Result<T> FromAny(std::vector<Origin>& origins, const Ask& ask) {
  std::optional<Error> last;
  for (size_t i = 0; i < origins.size(); ++i) {
    Result<T> got = ask(origins[i]);
    if (got) {
      // Who had the one has the rest.
      std::rotate(origins.begin(), origins.begin() + static_cast<std::ptrdiff_t>(i),
                  origins.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return got;
    }
    last = std::move(got.error());
  }
  return last.value_or(NotFound("no host that may be asked for it"));
}

}  // namespace

Result<std::string> ImagePull::CurrentDigest() {
  return FromAny<std::string>(origins_, [&](Origin& origin) -> Result<std::string> {
    if (!origin.host.resolve) return NotFound("host does not resolve");
    ASSIGN_OR_RETURN(const Answer answer,
                     client_.Ask(origin, {"HEAD", origin.Url("manifests", Asked()), kAccept}));
    shown_ = origin.Shown();
    return answer.head.digest;
  });
}

Result<RegistryDocument> ImagePull::AskManifest(Origin& origin, const std::string& reference,
                                                size_t limit) {
  ASSIGN_OR_RETURN(Answer answer, client_.Ask(origin, {"GET", origin.Url("manifests", reference),
                                                       kAccept, limit}));
  RegistryDocument document;
  ASSIGN_OR_RETURN(document.media_type, ManifestType(answer.head.content_type, answer.body));
  document.digest = DigestOf(answer.body);
  document.text = std::move(answer.body);
  const std::string& said = answer.head.digest;
  if (!said.empty() && said != document.digest.value) {
    return InvalidArgument(
        StrCat("manifest: announced as ", said, ", its content is ", document.digest.value));
  }
  return document;
}

Result<RegistryDocument> ImagePull::Resolve(const StagingArea& area) {
  return FromAny<RegistryDocument>(origins_, [&](Origin& origin) -> Result<RegistryDocument> {
    if (reference_.digest.empty() && !origin.host.resolve) {
      return NotFound(StrCat(origin.host.authority, " is not asked for tags"));
    }
    ASSIGN_OR_RETURN(RegistryDocument document,
                     AskManifest(origin, Asked(), area.limits.document_bytes));
    if (!reference_.digest.empty() && document.digest.value != reference_.digest) {
      return InvalidArgument(StrCat("manifest ", reference_.digest,
                                    ": content does not match its digest, it is ",
                                    document.digest.value));
    }
    shown_ = origin.Shown();
    return document;
  });
}

Result<RegistryDocument> ImagePull::FetchManifest(const Descriptor& descriptor,
                                                  const StagingArea& area) {
  RETURN_IF_ERROR(CheckSize(descriptor, area));
  RegistryDocument document{"", descriptor.media_type, descriptor.digest};
  if (auto stored = StoredDocument(descriptor, area)) {
    document.text = std::move(*stored);
    return document;
  }
  ASSIGN_OR_RETURN(document, FromAny<RegistryDocument>(origins_, [&](Origin& origin) {
                     return AskManifest(origin, descriptor.digest.value,
                                        area.limits.document_bytes);
                   }));
  RETURN_IF_ERROR(CheckDocument(descriptor, document.text));
  if (document.media_type != descriptor.media_type) {
    return InvalidArgument(StrCat("manifest ", descriptor.digest.value, ": the index says it is ",
                                  descriptor.media_type, ", the registry ", document.media_type));
  }
  return document;
}

Result<std::string> ImagePull::FetchConfig(const Descriptor& descriptor, const StagingArea& area) {
  RETURN_IF_ERROR(CheckSize(descriptor, area));
  if (auto stored = StoredDocument(descriptor, area)) return std::move(*stored);
  return FromAny<std::string>(origins_, [&](Origin& origin) -> Result<std::string> {
    ASSIGN_OR_RETURN(Answer answer,
                     client_.Ask(origin, {"GET", origin.Url("blobs", descriptor.digest.value), "",
                                          area.limits.document_bytes}));
    RETURN_IF_ERROR(CheckDocument(descriptor, answer.body));
    return std::move(answer.body);
  });
}

Result<RegistryDocument> ImagePull::FindManifest(RegistryDocument document,
                                                 const StagingArea& area) {
  for (int depth = 0; IsIndexType(document.media_type); ++depth) {
    if (depth == kMaxIndexDepth) return InvalidArgument("image index: nested too deeply");
    ASSIGN_OR_RETURN(const ImageIndex index,
                     ParseIndex(document.text, document.media_type, kMaxIndexEntries));
    ASSIGN_OR_RETURN(const Descriptor chosen, ChooseForHost(index.manifests, "the registry"));
    ASSIGN_OR_RETURN(document, FetchManifest(chosen, area));
  }
  return document;
}

Result<void> ImagePull::FetchLayers(const std::vector<Descriptor>& layers,
                                    const StagingArea& area) {
  std::vector<WantedBlob> wanted;
  std::set<Digest> seen;
  std::vector<Digest> here_already;
  std::map<Digest, uint64_t> to_come;
  uint64_t total = 0, here = 0;
  progress_.layers.assign(layers.size(), {});
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerProgress& progress = progress_.layers[i];
    progress = {layers[i].digest.value, layers[i].size, 0, LayerProgress::State::kWaiting};
    const bool first = seen.insert(layers[i].digest).second;
    const bool stored = first && area.claim.Blob(layers[i].digest);
    if (stored) here_already.push_back(layers[i].digest);
    if (!first || stored) {
      progress.bytes = progress.size;
      progress.state = LayerProgress::State::kDownloaded;
      continue;
    }
    // Checked one by one: the sum of a hostile manifest may be beyond 64 bits.
    if (layers[i].size > area.limits.archive_bytes - total) {
      return Error(Code::kResourceExhausted,
                   StrCat("layers: more than the limit of ", area.limits.archive_bytes, " bytes"));
    }
    total += layers[i].size;
    const uint64_t partial = std::min(layers[i].size, area.partial.SizeOf(layers[i].digest));
    here += partial;
    to_come[layers[i].digest] = layers[i].size - partial;
    wanted.push_back({layers[i].digest, layers[i].size, &progress});
  }
  moved_();
  uint64_t coming = total - here;
  RETURN_IF_ERROR(CheckRoom(area.ingest.dir(), area.limits.reserve, coming));
  area.layers.SetComing(coming);
  for (const Digest& blob : here_already) area.layers.Arrived(blob);
  DownloadLimits limits;
  limits.reserve = area.limits.reserve;
  const auto whole = [&](const Digest& blob) {
    coming -= to_come[blob];
    area.layers.SetComing(coming);
    area.layers.Arrived(blob);
  };
  return BlobDownloads(client_, origins_, {area.ingest, area.partial}, limits)
      .Run(wanted, whole, [&] { return Show(area.layers); });
}

// How far the unpacking is, beside what the downloads say of themselves; its error ends both.
Result<void> ImagePull::Show(ArrivingLayers& layers) {
  using State = LayerProgress::State;
  RETURN_IF_ERROR(client_.CheckStop());
  ASSIGN_OR_RETURN(const std::optional<size_t> at, layers.At());
  for (size_t i = 0; at && i <= *at; ++i) {
    progress_.layers[i].state = i == *at ? State::kUnpacking : State::kDone;
  }
  moved_();
  return {};
}

Result<void> ImagePull::Run(const StagingArea& area) {
  auto resolved = Resolve(area);
  if (!resolved) {
    const std::string name = reference_.Name();
    const bool absent = resolved.error().code() == Code::kNotFound;
    if (absent) resolved = NotFound(StrCat(name, ": not found"));
    return std::move(resolved.error()).Wrap(StrCat("failed to resolve reference \"", name, "\""));
  }
  const Digest target = resolved->digest;
  ASSIGN_OR_RETURN(const RegistryDocument found, FindManifest(std::move(*resolved), area));
  ASSIGN_OR_RETURN(const ImageManifest manifest,
                   ParseManifest(found.text, found.media_type, area.limits.layers));
  ASSIGN_OR_RETURN(const std::string config, FetchConfig(manifest.config, area));
  ASSIGN_OR_RETURN(StagedImage image, DescribeImage(found.digest, manifest, config, area.limits));
  RETURN_IF_ERROR(CheckPlatform(image.config.platform));
  image.target = target;
  image.names = {reference_.Name()};
  image.size += found.text.size();
  RETURN_IF_ERROR(area.layers.Expect(std::move(image)));
  RETURN_IF_ERROR(FetchLayers(manifest.layers, area));
  RETURN_IF_ERROR(StageDocument(area.ingest, found.text));
  RETURN_IF_ERROR(StageDocument(area.ingest, config));
  return area.layers.Finish([&] { return Show(area.layers); });
}

}  // namespace holdfast::runtime
