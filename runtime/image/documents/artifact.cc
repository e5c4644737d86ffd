// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/documents/artifact.h"

#include <algorithm>
#include <climits>
#include <set>
#include <string_view>

#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "runtime/image/content/digest.h"

namespace holdfast::runtime {
namespace {

constexpr std::string_view kEmpty = "application/vnd.oci.empty.v1+json";
constexpr char kUnpack[] = "io.deis.oras.content.unpack";  // oras: a directory, packed
// The first that a blob has. Models have places of their own (ModelPack, of before and after it was
// CNCF's).
constexpr const char* kTitles[] = {"org.opencontainers.image.title", "org.cncf.model.filepath",
                                   "org.cnai.model.filepath"};
constexpr size_t kMaxParts = 32;  // each is a directory, of 500 blobs
constexpr size_t kMaxPath = 1024;
constexpr size_t kLongestShown = 200;

Error Refuse(const std::string& title, std::string_view why) {
  return InvalidArgument(
      StrCat("artifact: title \"", Printable(title.substr(0, kLongestShown)), "\": ", why));
}

std::string Annotation(const Descriptor& blob, const char* key) {
  const auto found = blob.annotations.find(key);
  return found == blob.annotations.end() ? std::string() : found->second;
}

std::string TitleOf(const Descriptor& blob) {
  for (const char* key : kTitles) {
    if (std::string title = Annotation(blob, key); !title.empty()) return title;
  }
  return {};
}

// Also those of ISO 6429, U+0080 to U+009F. (JSON is UTF-8, which its reader has checked.)
bool HasControlCharacter(std::string_view text) {
  unsigned char before = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (before == 0xc2 && byte < 0xa0)) return true;
    before = byte;
  }
  return false;
}

Result<std::string> PathOf(const std::string& title) {
  if (HasControlCharacter(title)) return Refuse(title, "holds a control character");
  if (title.starts_with('/')) return Refuse(title, "must be relative");
  std::string path;
  size_t parts = 0;
  for (size_t begin = 0; begin < title.size();) {
    const size_t end = std::min(title.find('/', begin), title.size());
    const std::string part = title.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return Refuse(title, "must not hold \"..\"");
    if (part.size() > NAME_MAX) return Refuse(title, "a part of it is longer than 255 bytes");
    if (++parts > kMaxParts)
      return Refuse(title, StrCat("deeper than ", kMaxParts, " directories"));
    path += path.empty() ? part : "/" + part;
  }
  if (path.empty()) return Refuse(title, "names no file");
  if (path.size() > kMaxPath) return Refuse(title, StrCat("longer than ", kMaxPath, " bytes"));
  return path;
}

// The media type does not tell: oras calls any file a tar, as a layer's, if it was not told better.
Result<ArtifactPart> PartOf(const Descriptor& blob) {
  const std::string title = TitleOf(blob);
  const bool is_tar = IsLayerType(blob.media_type);
  if (Annotation(blob, kUnpack) == "true" || (title.empty() && is_tar)) {
    return ArtifactPart{ArtifactPart::Kind::kTree, ""};
  }
  if (title.empty() && blob.media_type == kEmpty) return ArtifactPart{};
  // As podman calls them.
  if (title.empty()) return ArtifactPart{ArtifactPart::Kind::kFile, "sha256-" + HexOf(blob.digest)};
  ASSIGN_OR_RETURN(std::string path, PathOf(title));
  return ArtifactPart{ArtifactPart::Kind::kFile, std::move(path)};
}

}  // namespace

Result<std::vector<ArtifactPart>> PartsOfArtifact(const ImageManifest& manifest) {
  std::vector<ArtifactPart> parts;
  std::set<std::string> files, directories;
  for (const Descriptor& blob : manifest.layers) {
    ASSIGN_OR_RETURN(ArtifactPart part, PartOf(blob));
    if (part.kind == ArtifactPart::Kind::kFile) {
      const std::string& path = part.path;
      if (!files.insert(path).second) return Refuse(path, "two blobs have it");
      for (size_t at = path.find('/'); at != path.npos; at = path.find('/', at + 1)) {
        directories.insert(path.substr(0, at));
      }
    }
    parts.push_back(std::move(part));
  }
  for (const std::string& file : files) {
    if (directories.contains(file)) return Refuse(file, "another blob lies below it");
  }
  return parts;
}

ConfigDocument ConfigOfArtifact(const ImageManifest& manifest) {
  ConfigDocument document;
  document.created = manifest.created;
  document.artifact_type = manifest.artifact_type;
  return document;
}

}  // namespace holdfast::runtime
