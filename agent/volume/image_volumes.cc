// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/image_volumes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMostVolumes = 64;  // each is a mount
constexpr size_t kMostParts = 64;

// "/var//data/" as its parts; nothing for "/", for a path that is not absolute or goes up, and for
// what is the kernel's: a container with a mount on /proc is not started.
std::optional<std::vector<std::string>> DeclaredParts(const std::string& path) {
  if (!path.starts_with('/')) return std::nullopt;
  std::vector<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (part == "..") return std::nullopt;
    if (!part.empty() && part != ".") parts.push_back(part);
    at = end + 1;
  }
  if (parts.empty() || parts.size() > kMostParts) return std::nullopt;
  if (parts[0] == "proc" || parts[0] == "sys" || parts[0] == "dev") return std::nullopt;
  return parts;
}

enum class Seen : uint8_t {
  kNothing,    // look in the layer below
  kHidden,     // this layer takes away what layers below have
  kDirectory,  // goes on below
  kTop,        // a directory that hides those below
  kOther,      // a file, a link: whatever it is, it is no place for a directory
};

bool IsOpaque(int directory) {
  for (const char* name : {"trusted.overlay.opaque", "user.overlay.opaque"}) {
    char value = 0;
    if (::fgetxattr(directory, name, &value, 1) == 1 && value == 'y') return true;
  }
  return false;
}

// What one layer has at the place; `directory` is set for the last two kinds of directory.
Seen Look(int layer, const std::vector<std::string>& parts, UniqueFd& directory) {
  bool hides = false;
  int at = layer;
  for (const std::string& part : parts) {
    auto next = sys::OpenAt(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK);
    if (!next) {
      struct stat st{};
      if (::fstatat(at, part.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return hides ? Seen::kHidden : Seen::kNothing;
      }
      const bool whiteout = S_ISCHR(st.st_mode) && st.st_rdev == 0;
      return whiteout ? Seen::kHidden : Seen::kOther;
    }
    directory = std::move(*next);
    at = directory.get();
    hides = hides || IsOpaque(at);
  }
  return hides ? Seen::kTop : Seen::kDirectory;
}

// Nothing when the image has files there, or something that is no directory.
std::optional<ImageVolume> VolumeAt(const Image& image, const std::vector<std::string>& parts) {
  ImageVolume volume;
  for (const std::string& part : parts) volume.path += "/" + part;
  bool found = false;
  for (auto layer = image.layers.rbegin(); layer != image.layers.rend(); ++layer) {
    const auto root = sys::OpenDir(*layer);
    if (!root) return std::nullopt;
    UniqueFd directory;
    const Seen seen = Look(root->get(), parts, directory);
    if (seen == Seen::kNothing) continue;
    if (seen == Seen::kHidden || (seen == Seen::kOther && found)) break;
    if (seen == Seen::kOther) return std::nullopt;
    const auto names = sys::ListDirAt(directory.get(), ".");
    if (!names || !names->empty()) return std::nullopt;
    struct stat st{};
    // The topmost one is what the container would see.
    if (!found && ::fstat(directory.get(), &st) == 0) {
      volume.mode = st.st_mode & 07777;
      volume.owner = st.st_uid;
      volume.group = st.st_gid;
    }
    found = true;
    if (seen == Seen::kTop) break;
  }
  return volume;
}

}  // namespace

std::vector<ImageVolume> ImageVolumes(const Image& image) {
  std::vector<ImageVolume> volumes;
  std::set<std::string> paths;
  for (const std::string& path : image.config.volumes) {
    const auto parts = DeclaredParts(path);
    if (!parts || volumes.size() >= kMostVolumes) continue;
    auto volume = VolumeAt(image, *parts);
    if (volume && paths.insert(volume->path).second) volumes.push_back(std::move(*volume));
  }
  return volumes;
}

Result<void> EnsureImageVolume(const std::string& directory, const ImageVolume& volume) {
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, directory, 0700));
  ASSIGN_OR_RETURN(const UniqueFd made,
                   sys::OpenAt(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (::fchown(made.get(), volume.owner, volume.group) != 0) {
    return Error::FromErrno(errno, StrCat("chown ", directory));
  }
  if (::fchmod(made.get(), volume.mode) != 0) {
    return Error::FromErrno(errno, StrCat("chmod ", directory));
  }
  return {};
}

}  // namespace holdfast::agent
