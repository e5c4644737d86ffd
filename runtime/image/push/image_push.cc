// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/push/image_push.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "runtime/image/documents/oci_documents.h"
#include "runtime/image/push/blob_uploads.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kMaxReply = 64 << 10;

// "" when no other repository of the destination's registry is known to have the layer.
std::string SourceOf(const Digest& layer, const StoredImage& image, const Reference& destination) {
  const auto known = image.repositories.find(layer);
  if (known == image.repositories.end()) return {};
  const std::string registry = destination.Registry() + "/";
  for (const std::string& repository : known->second) {
    if (repository == destination.repository || !repository.starts_with(registry)) continue;
    return repository.substr(registry.size());
  }
  return {};
}

// What the manifest is made of, each blob once; the layers' progress is filled.
std::vector<OutgoingBlob> BlobsOf(const ImageManifest& manifest, const StoredImage& image,
                                  const Reference& destination, PushProgress& progress) {
  std::vector<OutgoingBlob> blobs;
  std::set<Digest> seen;
  progress.layers.assign(manifest.layers.size(), {});
  for (size_t i = 0; i < manifest.layers.size(); ++i) {
    const Descriptor& layer = manifest.layers[i];
    PushedLayer& shown = progress.layers[i];
    shown = {layer.digest.value, layer.size, 0, PushedLayer::State::kWaiting};
    if (IsForeignLayerType(layer.media_type)) {
      shown.state = PushedLayer::State::kForeign;
    } else if (!seen.insert(layer.digest).second) {
      shown.state = PushedLayer::State::kPresent;  // by the one before
      shown.bytes = shown.size;
    } else {
      blobs.push_back(
          {layer.digest, layer.size, SourceOf(layer.digest, image, destination), &shown});
    }
  }
  blobs.push_back({manifest.config.digest, manifest.config.size, "", nullptr});
  return blobs;
}

// Then nothing is missing: a registry takes no manifest before it has all that this one names.
Result<bool> IsNamedAlready(const PushPlace& place, const std::string& url,
                            const std::string& media_type, const Digest& digest) {
  const auto answer = place.client.Ask(place.origin, {"HEAD", url, media_type});
  if (answer) return answer->head.digest == digest.value;
  if (answer.error().code() == Code::kNotFound) return false;
  return answer.error();
}

Result<void> SendManifest(const PushPlace& place, const std::string& url,
                          const std::string& media_type, const std::string& text,
                          const Digest& digest) {
  ASSIGN_OR_RETURN(const Answer answer,
                   place.client.Ask(place.origin, {"PUT", url, "", kMaxReply, text, media_type}));
  const std::string& said = answer.head.digest;
  if (said.empty() || said == digest.value) return {};
  return InvalidArgument(
      StrCat("manifest ", digest.value, ": ", place.origin.host.authority, " took it for ", said));
}

}  // namespace

Result<PushedImage> PushTo(const PushPlace& place, const StoredImage& image,
                           const Reference& destination, const ImageLimits& limits) {
  const Digest& digest = image.record.manifest;
  PushedImage pushed;
  pushed.name = destination.Name();
  pushed.digest = StrCat(destination.repository, "@", digest.value);
  pushed.size_bytes = image.record.size;
  if (image.target && *image.target != digest) pushed.index = image.target;
  if (!destination.digest.empty() && destination.digest != digest.value) {
    return InvalidArgument(StrCat("cannot be named ", destination.Name(), ": its manifest is ",
                                  digest.value, "; give a tag"));
  }
  ASSIGN_OR_RETURN(const std::string text, image.blobs.ReadBlob(digest, limits.document_bytes));
  ASSIGN_OR_RETURN(const std::string media_type, ManifestTypeOf(text));
  ASSIGN_OR_RETURN(const ImageManifest manifest, ParseManifest(text, media_type, limits.layers));
  const std::vector<OutgoingBlob> blobs = BlobsOf(manifest, image, destination, place.progress);

  const std::string url = place.origin.Url(
      "manifests", destination.digest.empty() ? destination.tag : destination.digest);
  ASSIGN_OR_RETURN(pushed.was_there, IsNamedAlready(place, url, media_type, digest));
  if (pushed.was_there) {
    for (PushedLayer& layer : place.progress.layers) {
      if (layer.state != PushedLayer::State::kForeign) layer.state = PushedLayer::State::kPresent;
      layer.bytes = layer.size;
    }
    return pushed;
  }
  RETURN_IF_ERROR(BlobUploads(place.client, place.origin, image.blobs).Run(blobs, place.moved));
  RETURN_IF_ERROR(SendManifest(place, url, media_type, text, digest));
  return pushed;
}

}  // namespace holdfast::runtime
