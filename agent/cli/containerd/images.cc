// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/containerd/images.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent::containerd {
namespace {

constexpr char kDatabase[] = "io.containerd.metadata.v1.bolt/meta.db";
constexpr int kAttempts = 200;  // some milliseconds each
constexpr size_t kMaxImages = 100'000;
constexpr size_t kMaxText = 4096;  // of a name and each field

// binary.PutVarint of Go: seven bits a byte, the lowest first, the sign in the lowest bit.
Result<uint64_t> ReadSize(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size() && i < 9; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value |= uint64_t{byte & 0x7Fu} << (7 * i);
    if (byte < 0x80 && value % 2 == 0) return value / 2;
    if (byte < 0x80) break;
  }
  return InvalidArgument("a size that is no whole number");
}

Result<Target> ReadTarget(BoltReader& bolt, const BoltReader::Entry& image) {
  ASSIGN_OR_RETURN(const BoltReader::Bucket fields, bolt.BucketOf(image));
  ASSIGN_OR_RETURN(const auto target, bolt.Find(fields, "target"));
  if (!target) return InvalidArgument("an image without a target");
  Target read;
  RETURN_IF_ERROR(bolt.ForEach(*target, [&](const BoltReader::Entry& entry) -> Result<void> {
    if (entry.value.size() > kMaxText) return InvalidArgument("a target with a field too long");
    if (entry.key == "digest") read.digest = entry.value;
    if (entry.key == "mediatype") read.media_type = entry.value;
    if (entry.key == "size") {
      ASSIGN_OR_RETURN(read.size, ReadSize(entry.value));
    }
    return {};
  }));
  return read;
}

Result<BoltReader::Bucket> FindNamespace(BoltReader& bolt, const std::string& name_space) {
  ASSIGN_OR_RETURN(const auto schema, bolt.Find(bolt.root(), "v1"));
  if (!schema) return InvalidArgument("a database of bbolt, but none of containerd's metadata");
  ASSIGN_OR_RETURN(auto found, bolt.Find(*schema, name_space));
  if (found) return *found;
  std::string others;
  RETURN_IF_ERROR(bolt.ForEach(*schema, [&](const BoltReader::Entry& entry) -> Result<void> {
    if (entry.is_bucket)
      others += StrCat(others.empty() ? "" : ", ", entry.key.substr(0, kMaxText));
    return {};
  }));
  return NotFound(StrCat("containerd has no namespace \"", name_space, "\"; there ",
                         others.empty() ? "is none" : "are: ", others));
}

Result<std::vector<NamedImage>> ReadOnce(BoltReader& bolt, const std::string& name_space) {
  ASSIGN_OR_RETURN(const BoltReader::Bucket bucket, FindNamespace(bolt, name_space));
  std::vector<NamedImage> images;
  ASSIGN_OR_RETURN(const auto names, bolt.Find(bucket, "images"));
  if (!names) return images;
  RETURN_IF_ERROR(bolt.ForEach(*names, [&](const BoltReader::Entry& entry) -> Result<void> {
    if (!entry.is_bucket) return {};
    if (images.size() == kMaxImages || entry.key.size() > kMaxText) {
      return Error(Code::kResourceExhausted, "too many images, or a name that is too long");
    }
    ASSIGN_OR_RETURN(Target target, ReadTarget(bolt, entry));
    images.push_back({std::string(entry.key), std::move(target)});
    return {};
  }));
  return images;
}

}  // namespace

Result<std::vector<NamedImage>> ReadImages(const ReadAt& read, const std::string& name_space) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ASSIGN_OR_RETURN(BoltReader bolt, BoltReader::Open(read));
    auto images = ReadOnce(bolt, name_space);
    ASSIGN_OR_RETURN(const bool whole, bolt.IsStillLast());
    if (whole) return images;
  }
  return Unavailable("containerd changes it faster than it can be read");
}

Result<std::vector<NamedImage>> ReadImagesBelow(int root, const std::string& name_space) {
  ASSIGN_OR_RETURN(const UniqueFd file,
                   sys::OpenInside(root, kDatabase, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0,
                                   sys::Resolve::kNoLinks));
  const ReadAt read = [&file](uint64_t offset, size_t size) -> Result<std::string> {
    std::string bytes(size, '\0');
    size_t used = 0;
    while (used < size) {
      const ssize_t count =
          ::pread(file.get(), bytes.data() + used, size - used, static_cast<off_t>(offset + used));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Error::FromErrno(errno, "read");
      if (count == 0) break;
      used += static_cast<size_t>(count);
    }
    bytes.resize(used);
    return bytes;
  };
  return WithContext(ReadImages(read, name_space), kDatabase);
}

}  // namespace holdfast::agent::containerd
