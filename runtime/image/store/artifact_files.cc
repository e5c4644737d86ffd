// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/store/artifact_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/content/room.h"

namespace holdfast::runtime {
namespace {

constexpr mode_t kDirectoryMode = 0755;
constexpr mode_t kFileMode = 0644;

// By its descriptor: it may still be in the ingest directory, or in the store.
Result<void> LinkFile(int blob, int tree, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string parent = slash == path.npos ? "." : path.substr(0, slash);
  const std::string leaf = slash == path.npos ? path : path.substr(slash + 1);
  ASSIGN_OR_RETURN(const DirFd directory, sys::MakeDirs(tree, parent, kDirectoryMode));
  if (::fchmod(blob, kFileMode) != 0) return Error::FromErrno(errno, "chmod blob");
  const std::string from = StrCat("/proc/self/fd/", blob);
  if (::linkat(AT_FDCWD, from.c_str(), directory.get(), leaf.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return Error::FromErrno(errno, "link blob");
  }
  return {};
}

}  // namespace

// A layer's chain id is the digest of two digests, or of a tar. A text that is a tar too could be
// made: it would be its maker's own layer and artifact. Paths hold no control character.
Digest ChainIdOf(const std::vector<ArtifactFile>& files) {
  std::string text = "artifact files\n";
  for (const ArtifactFile& file : files) text += StrCat(file.blob.value, " ", file.path, "\n");
  return DigestOf(text);
}

Digest ChainIdOfTar(const Digest& lower, const Digest& blob) {
  return DigestOf(StrCat("artifact tar\n", lower.value, "\n", blob.value));
}

Result<void> LinkFiles(const std::vector<ArtifactFile>& files, const OpenBlob& open,
                       const Ingest& ingest, const std::string& name,
                       const model::DiskReserve& reserve) {
  ASSIGN_OR_RETURN(const DirFd tree, sys::MakeDirs(ingest.dir(), name, kDirectoryMode));
  for (const ArtifactFile& file : files) {
    // Names make directories.
    RETURN_IF_ERROR(CheckRoom(ingest.dir(), reserve));
    ASSIGN_OR_RETURN(const UniqueFd blob, open(file.blob));
    RETURN_IF_ERROR(WithContext(LinkFile(blob.get(), tree.get(), file.path),
                                StrCat("blob ", file.blob.value, " as ", file.path)));
  }
  HOLDFAST_PAUSE_POINT("image.files-linked");
  return {};
}

}  // namespace holdfast::runtime
