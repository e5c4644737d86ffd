// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/store/exporter.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <set>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/image/content/copy.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/documents/json_text.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kTarBlock = 512;

struct UstarHeader {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char rest[247];
};
static_assert(sizeof(UstarHeader) == kTarBlock);

void PutOctal(char* field, size_t width, uint64_t value) {
  for (size_t i = width - 1; i-- > 0; value >>= 3) field[i] = static_cast<char>('0' + (value & 7));
}

// Above 8 GiB the size is written in base 256, as GNU tar and Go do.
void PutSize(char (&field)[12], uint64_t value) {
  if (value < (uint64_t{1} << 33)) return PutOctal(field, sizeof field, value);
  for (size_t i = sizeof field; i-- > 1; value >>= 8) field[i] = static_cast<char>(value & 0xff);
  field[0] = static_cast<char>(0x80);
}

class TarStream {
 public:
  explicit TarStream(int fd) : fd_(fd) {}

  Result<void> Header(const std::string& name, uint64_t size) {
    UstarHeader header{};
    std::memcpy(header.name, name.data(), std::min(name.size(), sizeof header.name));
    PutOctal(header.mode, sizeof header.mode, 0444);
    PutOctal(header.uid, sizeof header.uid, 0);
    PutOctal(header.gid, sizeof header.gid, 0);
    PutSize(header.size, size);
    PutOctal(header.mtime, sizeof header.mtime, 0);
    header.type = '0';
    std::memcpy(header.magic, "ustar", 6);
    std::memcpy(header.version, "00", 2);
    std::memset(header.checksum, ' ', sizeof header.checksum);
    unsigned sum = 0;
    const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
    for (size_t i = 0; i < sizeof header; ++i) sum += bytes[i];
    PutOctal(header.checksum, 7, sum);
    return sys::WriteAll(fd_, {reinterpret_cast<const char*>(&header), sizeof header});
  }

  Result<void> Pad(uint64_t size) {
    static constexpr std::array<char, kTarBlock> kZero{};
    return sys::WriteAll(fd_, {kZero.data(), (kTarBlock - size % kTarBlock) % kTarBlock});
  }

  Result<void> File(const std::string& name, const std::string& content) {
    RETURN_IF_ERROR(Header(name, content.size()));
    RETURN_IF_ERROR(sys::WriteAll(fd_, content));
    return Pad(content.size());
  }

  Result<void> Blob(const BlobStore& blobs, const Digest& digest) {
    ASSIGN_OR_RETURN(const uint64_t size, blobs.SizeOf(digest));
    ASSIGN_OR_RETURN(UniqueFd blob, blobs.OpenBlob(digest));
    RETURN_IF_ERROR(Header("blobs/sha256/" + HexOf(digest), size));
    ASSIGN_OR_RETURN(const Copied copied, CopyHashed(blob.get(), fd_, size));
    if (copied.digest != digest || copied.size != size) {
      return Internal(StrCat("blob ", digest.value, " is damaged"));
    }
    return Pad(size);
  }

  Result<void> End() { return sys::WriteAll(fd_, std::string(2 * kTarBlock, '\0')); }

 private:
  int fd_;
};

std::string DockerManifest(const ImageRecord& image, const std::vector<std::string>& names) {
  std::vector<std::string> layers;
  for (const Digest& layer : image.layers) layers.push_back("blobs/sha256/" + HexOf(layer));
  return StrCat("[{\"Config\":", JsonString("blobs/sha256/" + HexOf(image.id)),
                ",\"RepoTags\":", JsonArray(names), ",\"Layers\":", JsonArray(layers), "}]");
}

}  // namespace

Result<void> ExportImage(const BlobStore& blobs, const ImageRecord& image,
                         const std::vector<std::string>& names, size_t document_limit, int fd) {
  ASSIGN_OR_RETURN(const std::string manifest, blobs.ReadBlob(image.manifest, document_limit));
  Descriptor descriptor;
  ASSIGN_OR_RETURN(descriptor.media_type, ManifestTypeOf(manifest));
  descriptor.digest = image.manifest;
  descriptor.size = manifest.size();

  TarStream tar(fd);
  RETURN_IF_ERROR(tar.File("oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}"));
  RETURN_IF_ERROR(tar.File("index.json", WriteIndex(descriptor, names)));
  // docker knows no artifacts.
  if (!image.IsArtifact()) {
    RETURN_IF_ERROR(tar.File("manifest.json", DockerManifest(image, names)));
  }
  std::set<Digest> done;
  std::vector<Digest> all = {image.manifest, image.id};
  all.insert(all.end(), image.layers.begin(), image.layers.end());
  for (const Digest& digest : all) {
    if (done.insert(digest).second) RETURN_IF_ERROR(tar.Blob(blobs, digest));
  }
  return tar.End();
}

}  // namespace holdfast::runtime
