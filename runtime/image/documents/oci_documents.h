// SPDX-License-Identifier: Apache-2.0
// The JSON documents of images: OCI and Docker index, manifest, config, docker-archive manifest.
// Reading is strict about what decides something and ignores the rest. Pure; text is untrusted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast::runtime {

inline constexpr std::string_view kOciIndex = "application/vnd.oci.image.index.v1+json";
inline constexpr std::string_view kOciManifest = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view kOciConfig = "application/vnd.oci.image.config.v1+json";

struct Platform {
  std::string os;
  std::string architecture;
  std::string variant;
};

struct Descriptor {
  std::string media_type;
  Digest digest;  // checked
  uint64_t size = 0;
  Platform platform;
  std::map<std::string, std::string> annotations;
};

struct ImageIndex {
  std::vector<Descriptor> manifests;
};

struct ImageManifest {
  Descriptor config;
  std::vector<Descriptor> layers;  // lowest first; of an artifact whatever it consists of
  // Of an OCI artifact what it is ("application/vnd.example"); "": an image.
  std::string artifact_type;
  WallTime created;  // as its annotation says
};

struct ConfigDocument {
  Platform platform;
  WallTime created;
  ImageConfig config;
  std::vector<Digest> diff_ids;
  std::string artifact_type;  // of an artifact, which has nothing else of this but `created`
};

struct DockerArchiveImage {
  std::string config;               // member name
  std::vector<std::string> names;   // RepoTags
  std::vector<std::string> layers;  // member names
};

bool IsIndexType(std::string_view media_type);     // OCI index or Docker manifest list
bool IsManifestType(std::string_view media_type);  // OCI or Docker schema 2
bool IsConfigType(std::string_view media_type);
bool IsLayerType(std::string_view media_type);         // tar, plain or gzip or zstd, also "foreign"
bool IsForeignLayerType(std::string_view media_type);  // not to be handed on
// What a stored manifest says of itself; one of OCI's need not.
Result<std::string> ManifestTypeOf(std::string_view json);

// Of indexes that lie in one another, and of entries in one.
inline constexpr int kMaxIndexDepth = 4;
inline constexpr size_t kMaxIndexEntries = 1000;
// `media_type`: what the document was announced as ("" for index.json); one that says otherwise
// about itself, or is both an index and a manifest, is refused.
Result<ImageIndex> ParseIndex(std::string_view json, std::string_view media_type,
                              size_t max_entries);
// An OCI manifest whose config is no image's is an artifact's (image-spec 1.1, "guidelines for
// artifact usage"). Of an image the types of all layers are known.
Result<ImageManifest> ParseManifest(std::string_view json, std::string_view media_type,
                                    size_t max_layers);
Result<ConfigDocument> ParseConfig(std::string_view json, size_t max_layers);
Result<std::vector<DockerArchiveImage>> ParseDockerArchive(std::string_view json, size_t max_images,
                                                           size_t max_layers);

// What this build runs: {"linux", "amd64", ""}.
Platform HostPlatform();

// An OCI manifest of these descriptors; the same input gives the same bytes.
std::string WriteManifest(const Descriptor& config, const std::vector<Descriptor>& layers);
// The config of an image made of one root tar.
std::string WriteConfig(const ImageConfig& config, const Digest& diff_id);
// index.json naming one manifest.
std::string WriteIndex(const Descriptor& manifest, const std::vector<std::string>& names);

}  // namespace holdfast::runtime
