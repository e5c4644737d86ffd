// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/documents/oci_documents.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <span>

#include "holdfast/base/strings.h"
#include "holdfast/base/wall_time.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/documents/json_text.h"
#include "runtime/json/json_read.h"

namespace holdfast::runtime {
namespace {

constexpr std::array<std::string_view, 2> kIndexTypes = {
    kOciIndex, "application/vnd.docker.distribution.manifest.list.v2+json"};
constexpr std::array<std::string_view, 2> kManifestTypes = {
    kOciManifest, "application/vnd.docker.distribution.manifest.v2+json"};
constexpr std::array<std::string_view, 2> kConfigTypes = {
    kOciConfig, "application/vnd.docker.container.image.v1+json"};
constexpr std::array<std::string_view, 11> kLayerTypes = {
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
};

bool IsOneOf(std::span<const std::string_view> types, std::string_view type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

Result<Platform> ReadPlatform(const json::Object& object) {
  Platform platform;
  ASSIGN_OR_RETURN(platform.os, json::String(object, "os"));
  ASSIGN_OR_RETURN(platform.architecture, json::String(object, "architecture"));
  ASSIGN_OR_RETURN(platform.variant, json::String(object, "variant"));
  return platform;
}

Result<std::map<std::string, std::string>> ReadStringMap(const json::Object& object,
                                                         std::string_view key) {
  std::map<std::string, std::string> out;
  ASSIGN_OR_RETURN(const auto map, json::Map(object, key));
  if (!map) return out;
  for (const auto field : *map) {
    std::string_view text;
    if (field.value.get(text) != simdjson::SUCCESS) {
      return InvalidArgument(StrCat("field ", key, ": holds something that is not a string"));
    }
    out.emplace(field.key, text);
  }
  return out;
}

Result<Descriptor> ReadDescriptor(const json::Object& object) {
  Descriptor descriptor;
  ASSIGN_OR_RETURN(descriptor.media_type, json::String(object, "mediaType"));
  if (descriptor.media_type.empty()) return InvalidArgument("descriptor without mediaType");
  ASSIGN_OR_RETURN(const std::string digest, json::String(object, "digest"));
  ASSIGN_OR_RETURN(descriptor.digest, ParseDigest(digest));
  const auto size = json::Field<uint64_t>(object, "size", "a whole number");
  if (!size || !*size) {
    return InvalidArgument(StrCat("descriptor of ", digest, ": size is not a whole number"));
  }
  descriptor.size = **size;
  ASSIGN_OR_RETURN(descriptor.annotations, ReadStringMap(object, "annotations"));
  ASSIGN_OR_RETURN(const auto platform, json::Inner(object, "platform"));
  if (platform) {
    ASSIGN_OR_RETURN(descriptor.platform, ReadPlatform(*platform));
  }
  return descriptor;
}

Result<std::vector<Descriptor>> ReadDescriptors(const json::Object& object, std::string_view key,
                                                size_t limit) {
  if (!json::Has(object, key)) return InvalidArgument(StrCat("field ", key, ": is missing"));
  ASSIGN_OR_RETURN(const auto entries, json::Objects(object, key));
  if (entries.size() > limit) {
    return Error(Code::kResourceExhausted,
                 StrCat("field ", key, ": more than ", limit, " entries"));
  }
  std::vector<Descriptor> descriptors;
  for (const json::Object& entry : entries) {
    ASSIGN_OR_RETURN(Descriptor descriptor, ReadDescriptor(entry));
    descriptors.push_back(std::move(descriptor));
  }
  return descriptors;
}

// The same bytes must not be read as two things (CVE-2021-41190).
Result<void> CheckKind(const json::Object& object, std::string_view announced,
                       std::string_view foreign_key) {
  if (json::Has(object, "fsLayers") || json::Has(object, "signatures")) {
    return Unsupported("Docker schema 1 manifests are not supported: convert the image");
  }
  ASSIGN_OR_RETURN(const uint64_t version, json::Number(object, "schemaVersion", 0));
  if (version != 2) return InvalidArgument("schemaVersion is not 2");
  if (json::Has(object, foreign_key)) {
    return InvalidArgument("document is both an index and a manifest");
  }
  ASSIGN_OR_RETURN(const std::string own, json::String(object, "mediaType"));
  if (!own.empty() && !announced.empty() && own != announced) {
    return InvalidArgument(StrCat("announced as ", announced, " but says it is ", own));
  }
  return {};
}

WallTime ParseCreated(const std::string& text) {
  std::tm parts{};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return {};
  return WallTimeOf(::timegm(&parts));
}

Result<ImageConfig> ReadImageConfig(const json::Object& object) {
  ImageConfig config;
  ASSIGN_OR_RETURN(config.entrypoint, json::Strings(object, "Entrypoint"));
  ASSIGN_OR_RETURN(config.cmd, json::Strings(object, "Cmd"));
  ASSIGN_OR_RETURN(config.env, json::Strings(object, "Env"));
  ASSIGN_OR_RETURN(config.user, json::String(object, "User"));
  ASSIGN_OR_RETURN(config.working_dir, json::String(object, "WorkingDir"));
  ASSIGN_OR_RETURN(config.stop_signal, json::String(object, "StopSignal"));
  ASSIGN_OR_RETURN(config.exposed_ports, json::Keys(object, "ExposedPorts"));
  ASSIGN_OR_RETURN(config.volumes, json::Keys(object, "Volumes"));
  ASSIGN_OR_RETURN(config.labels, ReadStringMap(object, "Labels"));
  return config;
}

Result<std::vector<Digest>> ReadDiffIds(const json::Object& object, size_t max_layers) {
  ASSIGN_OR_RETURN(const auto rootfs, json::Inner(object, "rootfs"));
  if (!rootfs) return InvalidArgument("no rootfs");
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, json::Strings(*rootfs, "diff_ids"));
  if (texts.size() > max_layers) {
    return Error(Code::kResourceExhausted, StrCat("more than ", max_layers, " layers"));
  }
  std::vector<Digest> diff_ids;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(Digest digest, ParseDigest(text));
    diff_ids.push_back(std::move(digest));
  }
  return diff_ids;
}

Result<ConfigDocument> ReadConfigDocument(const json::Object& object, size_t max_layers) {
  ConfigDocument document;
  ASSIGN_OR_RETURN(document.platform, ReadPlatform(object));
  ASSIGN_OR_RETURN(const std::string created, json::String(object, "created"));
  document.created = ParseCreated(created);
  ASSIGN_OR_RETURN(const auto config, json::Inner(object, "config"));
  if (config) {
    ASSIGN_OR_RETURN(document.config, ReadImageConfig(*config));
  }
  ASSIGN_OR_RETURN(document.diff_ids, ReadDiffIds(object, max_layers));
  return document;
}

// It is shown to people. 255: RFC 6838, 4.2.
bool IsMediaTypeText(std::string_view text) {
  return text.size() <= 255 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// Docker's plugins and the like have manifests with configs of their own too: these are nothing here.
Result<void> ReadArtifact(const json::Object& object, std::string_view announced,
                          ImageManifest& manifest) {
  const std::string& config_type = manifest.config.media_type;
  ASSIGN_OR_RETURN(const std::string own, json::String(object, "mediaType"));
  const std::string_view type = announced.empty() ? std::string_view(own) : announced;
  if (!type.empty() && type != kOciManifest) {
    return InvalidArgument(StrCat("config of unknown type ", config_type));
  }
  ASSIGN_OR_RETURN(manifest.artifact_type, json::String(object, "artifactType"));
  if (manifest.artifact_type.empty()) manifest.artifact_type = config_type;
  if (!IsMediaTypeText(manifest.artifact_type)) {
    return InvalidArgument("artifactType, or the config's mediaType in its place: no media type");
  }
  ASSIGN_OR_RETURN(auto annotations, ReadStringMap(object, "annotations"));
  manifest.created = ParseCreated(annotations["org.opencontainers.image.created"]);
  return {};
}

std::string WriteDescriptor(const Descriptor& descriptor) {
  return StrCat("{\"mediaType\":", JsonString(descriptor.media_type),
                ",\"digest\":", JsonString(descriptor.digest.value), ",\"size\":", descriptor.size,
                "}");
}

}  // namespace

bool IsIndexType(std::string_view type) { return IsOneOf(kIndexTypes, type); }
bool IsManifestType(std::string_view type) { return IsOneOf(kManifestTypes, type); }
bool IsConfigType(std::string_view type) { return IsOneOf(kConfigTypes, type); }
bool IsLayerType(std::string_view type) { return IsOneOf(kLayerTypes, type); }

bool IsForeignLayerType(std::string_view type) {
  return IsLayerType(type) && (type.find(".nondistributable.") != std::string_view::npos ||
                               type.find(".foreign.") != std::string_view::npos);
}

Result<std::string> ManifestTypeOf(std::string_view text) {
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const json::Object object, json::ParseObject(parser, text, "manifest"));
  ASSIGN_OR_RETURN(std::string type, json::String(object, "mediaType"));
  return type.empty() ? std::string(kOciManifest) : type;
}

Result<ImageIndex> ParseIndex(std::string_view text, std::string_view media_type,
                              size_t max_entries) {
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const json::Object object, json::ParseObject(parser, text, "image index"));
  RETURN_IF_ERROR(WithContext(CheckKind(object, media_type, "layers"), "image index"));
  ImageIndex index;
  auto manifests = ReadDescriptors(object, "manifests", max_entries);
  if (!manifests) return std::move(manifests.error()).Wrap("image index");
  index.manifests = std::move(*manifests);
  return index;
}

Result<ImageManifest> ParseManifest(std::string_view text, std::string_view media_type,
                                    size_t max_layers) {
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const json::Object object, json::ParseObject(parser, text, "image manifest"));
  RETURN_IF_ERROR(WithContext(CheckKind(object, media_type, "manifests"), "image manifest"));
  ImageManifest manifest;
  ASSIGN_OR_RETURN(const auto config, WithContext(json::Inner(object, "config"), "image manifest"));
  if (!config) return InvalidArgument("image manifest: no config");
  ASSIGN_OR_RETURN(manifest.config, WithContext(ReadDescriptor(*config), "image manifest: config"));
  if (!IsConfigType(manifest.config.media_type)) {
    RETURN_IF_ERROR(WithContext(ReadArtifact(object, media_type, manifest), "image manifest"));
  }
  auto layers = ReadDescriptors(object, "layers", max_layers);
  if (!layers) return std::move(layers.error()).Wrap("image manifest");
  manifest.layers = std::move(*layers);
  for (const Descriptor& layer : manifest.layers) {
    if (manifest.artifact_type.empty() && !IsLayerType(layer.media_type)) {
      return InvalidArgument(StrCat("image manifest: layer of unknown type ", layer.media_type));
    }
  }
  return manifest;
}

Result<ConfigDocument> ParseConfig(std::string_view text, size_t max_layers) {
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const json::Object object, json::ParseObject(parser, text, "image config"));
  return WithContext(ReadConfigDocument(object, max_layers), "image config");
}

Result<std::vector<DockerArchiveImage>> ParseDockerArchive(std::string_view text, size_t max_images,
                                                           size_t max_layers) {
  simdjson::dom::parser parser;
  json::Array array;
  if (parser.parse(simdjson::padded_string(text)).get(array) != simdjson::SUCCESS) {
    return InvalidArgument("manifest.json: not a JSON list");
  }
  std::vector<DockerArchiveImage> images;
  for (const json::Element element : array) {
    json::Object object;
    if (element.get(object) != simdjson::SUCCESS) {
      return InvalidArgument("manifest.json: holds something that is not an object");
    }
    RETURN_IF_ERROR(WithContext(json::CheckNames(object), "manifest.json"));
    DockerArchiveImage image;
    ASSIGN_OR_RETURN(image.config, json::String(object, "Config"));
    ASSIGN_OR_RETURN(image.names, json::Strings(object, "RepoTags"));
    ASSIGN_OR_RETURN(image.layers, json::Strings(object, "Layers"));
    if (image.layers.size() > max_layers || images.size() == max_images) {
      return Error(Code::kResourceExhausted, "manifest.json: too many images or layers");
    }
    images.push_back(std::move(image));
  }
  return images;
}

Platform HostPlatform() {
#if defined(__x86_64__)
  return {"linux", "amd64", ""};
#elif defined(__aarch64__)
  return {"linux", "arm64", "v8"};
#else
#error "name this machine as Go does: GOARCH"
#endif
}

std::string WriteManifest(const Descriptor& config, const std::vector<Descriptor>& layers) {
  std::string list;
  for (const Descriptor& layer : layers) {
    if (!list.empty()) list.push_back(',');
    list += WriteDescriptor(layer);
  }
  return StrCat("{\"schemaVersion\":2,\"mediaType\":", JsonString(kOciManifest),
                ",\"config\":", WriteDescriptor(config), ",\"layers\":[", list, "]}");
}

std::string WriteConfig(const ImageConfig& config, const Digest& diff_id) {
  const Platform host = HostPlatform();
  std::string fields;
  const auto add = [&fields](std::string_view key, bool present, const std::string& value) {
    if (!present) return;
    if (!fields.empty()) fields.push_back(',');
    fields += StrCat("\"", key, "\":", value);
  };
  add("User", !config.user.empty(), JsonString(config.user));
  add("ExposedPorts", !config.exposed_ports.empty(), JsonSet(config.exposed_ports));
  add("Env", !config.env.empty(), JsonArray(config.env));
  add("Entrypoint", !config.entrypoint.empty(), JsonArray(config.entrypoint));
  add("Cmd", !config.cmd.empty(), JsonArray(config.cmd));
  add("Volumes", !config.volumes.empty(), JsonSet(config.volumes));
  add("WorkingDir", !config.working_dir.empty(), JsonString(config.working_dir));
  add("Labels", !config.labels.empty(), JsonObject(config.labels));
  add("StopSignal", !config.stop_signal.empty(), JsonString(config.stop_signal));
  return StrCat("{\"architecture\":", JsonString(host.architecture),
                ",\"os\":", JsonString(host.os), ",\"config\":{", fields,
                "},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[", JsonString(diff_id.value),
                "]}}");
}

std::string WriteIndex(const Descriptor& manifest, const std::vector<std::string>& names) {
  // One descriptor per name, as containerd and podman write and read it.
  std::string list;
  const auto add = [&](const std::string& annotations) {
    if (!list.empty()) list.push_back(',');
    std::string entry = WriteDescriptor(manifest);
    entry.insert(entry.size() - 1, annotations);
    list += entry;
  };
  for (const std::string& name : names) {
    add(StrCat(",\"annotations\":{\"io.containerd.image.name\":", JsonString(name),
               ",\"org.opencontainers.image.ref.name\":", JsonString(name), "}"));
  }
  if (names.empty()) add("");
  return StrCat("{\"schemaVersion\":2,\"mediaType\":", JsonString(kOciIndex), ",\"manifests\":[",
                list, "]}");
}

}  // namespace holdfast::runtime
