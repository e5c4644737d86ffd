// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/containerd/image_content.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <set>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/documents/oci_documents.h"
#include "runtime/image/documents/platform.h"

namespace holdfast::agent::containerd {
namespace {

using runtime::Descriptor;

constexpr char kBlobs[] = "io.containerd.content.v1.content/blobs/sha256/";
// The agent's own limits (ImageLimits), before anything is sent.
constexpr size_t kMaxDocument = 4 << 20, kMaxIndexEntries = 1000, kMaxLayers = 500;
constexpr int kMaxIndexDepth = 4;

class Collector {
 public:
  explicit Collector(int root) : root_(root) {}

  Result<void> AddImage(Descriptor current) {
    for (int depth = 0; runtime::IsIndexType(current.media_type); ++depth) {
      if (depth == kMaxIndexDepth) return InvalidArgument("image index: nested too deeply");
      ASSIGN_OR_RETURN(const std::string text, AddDocument(current, "index"));
      ASSIGN_OR_RETURN(const auto index,
                       runtime::ParseIndex(text, current.media_type, kMaxIndexEntries));
      auto chosen = runtime::ChooseForHost(index.manifests, "the index");
      if (!chosen) return Unsupported(chosen.error().message());  // a pull would not find it either
      current = std::move(*chosen);
    }
    ASSIGN_OR_RETURN(const std::string text, AddDocument(current, "manifest"));
    ASSIGN_OR_RETURN(const auto manifest,
                     runtime::ParseManifest(text, current.media_type, kMaxLayers));
    RETURN_IF_ERROR(AddBlob(manifest.config, "config"));
    return AddLayers(manifest.layers);
  }

  Result<void> AddText(std::string name, std::string_view text) {
    ASSIGN_OR_RETURN(UniqueFd file, sys::SealedMemfd(name, text));
    files_.push_back({.name = std::move(name), .file = std::move(file), .size = text.size()});
    return {};
  }

  std::vector<LayoutFile> Take() { return std::move(files_); }

 private:
  Result<UniqueFd> OpenBlob(const Descriptor& blob) const {
    const std::string hex = runtime::HexOf(blob.digest);
    ASSIGN_OR_RETURN(UniqueFd file,
                     sys::OpenInside(root_, kBlobs + hex, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0,
                                     sys::Resolve::kNoLinks));
    struct stat info{};
    if (::fstat(file.get(), &info) != 0) return Error::FromErrno(errno, "stat " + hex);
    if (!S_ISREG(info.st_mode)) return InvalidArgument(blob.digest.value + ": no regular file");
    if (static_cast<uint64_t>(info.st_size) != blob.size) {
      return InvalidArgument(StrCat(blob.digest.value, ": has ", info.st_size, " bytes, not the ",
                                    blob.size, " that it is said to have"));
    }
    return file;
  }

  // Images may have one layer twice, archives no file.
  void Keep(const Descriptor& blob, UniqueFd file, bool is_layer) {
    if (!kept_.insert(blob.digest).second) return;
    files_.push_back({.name = "blobs/sha256/" + runtime::HexOf(blob.digest),
                      .file = std::move(file),
                      .size = blob.size,
                      .is_layer = is_layer});
  }

  Result<void> AddBlob(const Descriptor& blob, std::string_view what) {
    auto file = OpenBlob(blob);
    if (!file && file.error().code() == Code::kNotFound) {
      return NotFound(StrCat("its ", what, " ", blob.digest.value, " is not there"));
    }
    if (!file) return std::move(file.error()).Wrap(what);
    Keep(blob, std::move(*file), false);
    return {};
  }

  Result<std::string> AddDocument(const Descriptor& blob, std::string_view what) {
    if (blob.size > kMaxDocument) {
      return InvalidArgument(StrCat("its ", what, " has ", blob.size, " bytes, which is too much"));
    }
    RETURN_IF_ERROR(AddBlob(blob, what));
    ASSIGN_OR_RETURN(const UniqueFd file, OpenBlob(blob));
    return WithContext(sys::ReadFd(file.get(), kMaxDocument), what);
  }

  Result<void> AddLayers(const std::vector<Descriptor>& layers) {
    size_t missing = 0;
    for (const Descriptor& layer : layers) {
      auto file = OpenBlob(layer);
      if (!file && file.error().code() == Code::kNotFound) {
        ++missing;
      } else if (!file) {
        return std::move(file.error()).Wrap("layer");
      } else {
        Keep(layer, std::move(*file), true);
      }
    }
    if (missing == 0) return {};
    return NotFound(StrCat(missing, " of its ", layers.size(),
                           " layers are not there (discard_unpacked_layers in containerd's "
                           "configuration, or a snapshotter that fetches them when needed)"));
  }

  int root_;
  std::vector<LayoutFile> files_;
  std::set<Digest> kept_;
};

}  // namespace

Result<std::vector<LayoutFile>> OpenImageContent(int root, const ChosenImage& image) {
  Descriptor target;
  target.media_type = image.target.media_type;
  ASSIGN_OR_RETURN(target.digest, runtime::ParseDigest(image.target.digest));
  target.size = image.target.size;
  Collector collector(root);
  RETURN_IF_ERROR(collector.AddText("oci-layout", R"({"imageLayoutVersion":"1.0.0"})"));
  RETURN_IF_ERROR(collector.AddText("index.json", runtime::WriteIndex(target, image.names)));
  RETURN_IF_ERROR(collector.AddImage(target));
  return collector.Take();
}

}  // namespace holdfast::agent::containerd
