// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/store/catalog.h"

#include <chrono>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/documents/artifact.h"
#include "runtime/image/documents/json_text.h"
#include "runtime/image/documents/reference.h"
#include "runtime/json/json_read.h"

namespace holdfast::runtime {
namespace {

constexpr uint64_t kCatalogVersion = 1;
constexpr size_t kMaxRecord = 1 << 20;
constexpr char kUsesFile[] = "uses.json";
constexpr size_t kMaxUses = 16 << 20;
constexpr int64_t kLastSecond = 253'402'300'799;  // of the year 9999
constexpr size_t kMaxLayers = 10'000;             // a record is ours: only a guard against nonsense

std::string ImageFile(const Digest& manifest) { return HexOf(manifest) + ".json"; }

// Names may hold characters that file names may not.
std::string NameFile(const std::string& name) {
  return HexOf(DigestOf(name)).substr(0, 32) + ".json";
}

bool IsRecord(const std::string& file) { return !file.starts_with('.') && file.ends_with(".json"); }

std::vector<std::string> Texts(const std::vector<Digest>& digests) {
  std::vector<std::string> texts;
  for (const Digest& digest : digests) texts.push_back(digest.value);
  return texts;
}

Result<void> CheckVersion(const json::Object& object) {
  uint64_t version = 0;
  if (object["version"].get(version) != simdjson::SUCCESS || version != kCatalogVersion) {
    return Unsupported(
        StrCat("record of version ", version, ", this build reads ", kCatalogVersion));
  }
  return {};
}

Result<Digest> ReadDigest(const json::Object& object, std::string_view key) {
  ASSIGN_OR_RETURN(const std::string text, json::String(object, key));
  return ParseDigest(text);
}

Result<std::vector<Digest>> ReadDigests(const json::Object& object, std::string_view key) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, json::Strings(object, key));
  std::vector<Digest> digests;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(Digest digest, ParseDigest(text));
    digests.push_back(std::move(digest));
  }
  return digests;
}

int64_t SecondsOf(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.since_epoch).count();
}

// Zero where there is none, or nonsense.
WallTime ReadSeconds(simdjson::simdjson_result<json::Element> element) {
  int64_t seconds = 0;
  if (element.get(seconds) != simdjson::SUCCESS || seconds < 0 || seconds > kLastSecond) return {};
  return {std::chrono::seconds(seconds)};
}

}  // namespace

Catalog::Catalog(DirFd root, DirFd images, DirFd names)
    : root_(std::move(root)), images_dir_(std::move(images)), names_dir_(std::move(names)) {}

Result<ImageRecord> Catalog::ReadImage(const std::string& file, const BlobStore& blobs,
                                       size_t limit) const {
  ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(images_dir_.get(), file, kMaxRecord));
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const json::Object object, json::ParseObject(parser, text, "record"));
  RETURN_IF_ERROR(CheckVersion(object));
  ImageRecord record;
  ASSIGN_OR_RETURN(record.manifest, ReadDigest(object, "manifest"));
  ASSIGN_OR_RETURN(record.id, ReadDigest(object, "config"));
  ASSIGN_OR_RETURN(record.layers, ReadDigests(object, "layers"));
  ASSIGN_OR_RETURN(record.chain_ids, ReadDigests(object, "chain_ids"));
  if (object["size"].get(record.size) != simdjson::SUCCESS) return Internal("record without size");
  record.detected = ReadSeconds(object["detected"]);
  ASSIGN_OR_RETURN(const std::string config, blobs.ReadBlob(record.id, limit));
  if (record.IsArtifact()) {
    ASSIGN_OR_RETURN(const ImageManifest manifest, ParseManifest(config, "", kMaxLayers));
    record.config = ConfigOfArtifact(manifest);
  } else {
    ASSIGN_OR_RETURN(record.config, ParseConfig(config, kMaxLayers));
  }
  return record;
}

Result<NameRecord> Catalog::ReadName(const std::string& file) const {
  ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(names_dir_.get(), file, kMaxRecord));
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const json::Object object, json::ParseObject(parser, text, "record"));
  RETURN_IF_ERROR(CheckVersion(object));
  NameRecord record;
  ASSIGN_OR_RETURN(record.name, json::String(object, "name"));
  ASSIGN_OR_RETURN(record.manifest, ReadDigest(object, "manifest"));
  ASSIGN_OR_RETURN(record.target, ReadDigest(object, "target"));
  return record;
}

Result<Catalog> Catalog::Open(int root, const BlobStore& blobs, size_t document_limit,
                              std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(DirFd images, sys::MakeDirs(root, "images", 0700));
  ASSIGN_OR_RETURN(DirFd names, sys::MakeDirs(root, "names", 0700));
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(root, "images"));
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(root, "names"));
  ASSIGN_OR_RETURN(DirFd own, sys::OpenDirAt(root, "."));
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(root, ".", sys::Writer::kAny, kUsesFile));
  Catalog catalog(std::move(own), std::move(images), std::move(names));
  ASSIGN_OR_RETURN(const auto image_files, sys::ListDirAt(catalog.images_dir_.get(), "."));
  for (const std::string& file : image_files) {
    if (!IsRecord(file)) continue;
    auto record = catalog.ReadImage(file, blobs, document_limit);
    if (record) {
      catalog.images_.emplace(record->manifest, std::move(*record));
    } else {
      warnings.push_back(StrCat("images/", file, ": ", record.error().message()));
    }
  }
  ASSIGN_OR_RETURN(const auto name_files, sys::ListDirAt(catalog.names_dir_.get(), "."));
  for (const std::string& file : name_files) {
    if (!IsRecord(file)) continue;
    auto record = catalog.ReadName(file);
    if (!record) {
      warnings.push_back(StrCat("names/", file, ": ", record.error().message()));
    } else if (catalog.images_.contains(record->manifest)) {
      catalog.names_.emplace(record->name, std::move(*record));
    }
  }
  catalog.ReadUses();
  return catalog;
}

// Only an order in which images go depends on it.
void Catalog::ReadUses() {
  const auto text = sys::ReadFileAt(root_.get(), kUsesFile, kMaxUses);
  if (!text) return;
  simdjson::dom::parser parser;
  const auto object = json::ParseObject(parser, *text, kUsesFile);
  json::Object used;
  if (!object || !CheckVersion(*object) || (*object)["used"].get(used) != simdjson::SUCCESS) return;
  for (const auto entry : used) {
    if (auto id = ParseDigest(entry.key))
      uses_[std::move(*id)] = ReadSeconds(json::Element(entry.value));
  }
}

std::vector<std::string> Catalog::NamesOf(const Digest& id) const {
  std::vector<std::string> names;
  for (const auto& [name, record] : names_) {
    if (images_.at(record.manifest).id == id) names.push_back(name);
  }
  return names;
}

std::vector<Digest> Catalog::ManifestsOf(const Digest& id) const {
  std::vector<Digest> manifests;
  for (const auto& [manifest, record] : images_) {
    if (record.id == id) manifests.push_back(manifest);
  }
  return manifests;
}

std::map<Digest, std::set<std::string>> Catalog::RepositoriesOfLayers() const {
  std::map<Digest, std::set<std::string>> repositories;
  for (const auto& [name, record] : names_) {
    const auto reference = ParseReference(name);
    if (!reference) continue;  // it was written as one
    for (const Digest& layer : images_.at(record.manifest).layers) {
      repositories[layer].insert(reference->repository);
    }
  }
  return repositories;
}

WallTime Catalog::UsedAt(const Digest& id) const {
  const auto found = uses_.find(id);
  return found == uses_.end() ? WallTime() : found->second;
}

std::map<Digest, WallTime> Catalog::UsesWith(const std::vector<Digest>& ids, WallTime now) const {
  std::map<Digest, WallTime> uses;
  for (const auto& [manifest, record] : images_) {
    if (const auto known = uses_.find(record.id); known != uses_.end()) uses.insert(*known);
  }
  for (const Digest& id : ids) uses.insert_or_assign(id, now);
  return uses;
}

Result<void> Catalog::WriteUses() {
  std::string entries;
  for (const auto& [id, used] : uses_) {
    entries += StrCat(entries.empty() ? "" : ",", JsonString(id.value), ":", SecondsOf(used));
  }
  const std::string text = StrCat("{\"version\":", kCatalogVersion, ",\"used\":{", entries, "}}\n");
  RETURN_IF_ERROR(sys::WriteFileAtomicAt(root_.get(), kUsesFile, text, 0600));
  HOLDFAST_PAUSE_POINT("image.uses-recorded");
  return {};
}

Result<void> Catalog::WriteImage(const ImageRecord& record) {
  const std::string text = StrCat(
      "{\"version\":", kCatalogVersion, ",\"manifest\":", JsonString(record.manifest.value),
      ",\"config\":", JsonString(record.id.value), ",\"layers\":", JsonArray(Texts(record.layers)),
      ",\"chain_ids\":", JsonArray(Texts(record.chain_ids)), ",\"size\":", record.size,
      ",\"detected\":", SecondsOf(record.detected), "}\n");
  RETURN_IF_ERROR(
      sys::WriteFileAtomicAt(images_dir_.get(), ImageFile(record.manifest), text, 0600));
  HOLDFAST_PAUSE_POINT("image.image-recorded");
  return {};
}

Result<void> Catalog::WriteName(const NameRecord& record) {
  const std::string text =
      StrCat("{\"version\":", kCatalogVersion, ",\"name\":", JsonString(record.name),
             ",\"manifest\":", JsonString(record.manifest.value),
             ",\"target\":", JsonString(record.target.value), "}\n");
  RETURN_IF_ERROR(sys::WriteFileAtomicAt(names_dir_.get(), NameFile(record.name), text, 0600));
  HOLDFAST_PAUSE_POINT("image.name-recorded");
  return {};
}

Result<void> Catalog::DropImage(const Digest& manifest) {
  RETURN_IF_ERROR(sys::RemoveFileAt(images_dir_.get(), ImageFile(manifest)));
  HOLDFAST_PAUSE_POINT("image.image-forgotten");
  return {};
}

Result<void> Catalog::DropName(const std::string& name) {
  RETURN_IF_ERROR(sys::RemoveFileAt(names_dir_.get(), NameFile(name)));
  HOLDFAST_PAUSE_POINT("image.name-forgotten");
  return {};
}

}  // namespace holdfast::runtime
