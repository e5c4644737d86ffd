// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/snapshot/layer_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/image/content/digest.h"

namespace holdfast::runtime {
namespace {

// 128 bits: 40 layers and more fit one page of mount options.
constexpr size_t kNameLength = 32;

// Paths of the helper's report: only ever opened beneath the tree, as directories. Nothing there is
// not an error: a later member may have taken the directory's place.
Result<UniqueFd> OpenReported(int tree, const std::string& path) {
  return sys::OpenInside(tree, path.empty() ? "." : path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
                         sys::Resolve::kBeneath);
}

bool IsAbsent(const Error& error) {
  const int code = error.sys_errno();
  return code == ENOENT || code == ENOTDIR || code == ELOOP || code == EXDEV;
}

Result<void> MarkOpaque(int tree, const std::string& path) {
  auto fd = OpenReported(tree, path);
  if (!fd && IsAbsent(fd.error())) return {};
  if (!fd) return std::move(fd.error());
  if (::fsetxattr(fd->get(), "trusted.overlay.opaque", "y", 1, 0) != 0) {
    return Error::FromErrno(errno, "setxattr trusted.overlay.opaque");
  }
  return {};
}

Result<void> BorrowAttributes(int tree, const std::string& path, const std::vector<DirFd>& lower) {
  for (auto layer = lower.rbegin(); layer != lower.rend(); ++layer) {
    auto from = OpenReported(layer->get(), path);
    if (!from && from.error().sys_errno() == ENOENT) continue;
    if (!from) return {};  // hidden or no directory there: nothing to borrow
    struct stat st{};
    if (::fstat(from->get(), &st) != 0) return Error::FromErrno(errno, "stat lower directory");
    auto to = OpenReported(tree, path);
    if (!to && IsAbsent(to.error())) return {};
    if (!to) return std::move(to.error());
    if (::fchown(to->get(), st.st_uid, st.st_gid) != 0 ||
        ::fchmod(to->get(), st.st_mode & 07777) != 0) {
      return Error::FromErrno(errno, "borrow a lower directory's owner and mode");
    }
    return {};
  }
  return {};
}

}  // namespace

LayerStore::LayerStore(DirFd layers, std::string path)
    : layers_(std::move(layers)), path_(std::move(path)) {}

Result<LayerStore> LayerStore::Open(int root, std::string path) {
  ASSIGN_OR_RETURN(DirFd layers, sys::MakeDirs(root, "layers", 0700));
  return LayerStore(std::move(layers), path + "/layers");
}

std::string LayerStore::NameOf(const Digest& chain_id) {
  return HexOf(chain_id).substr(0, kNameLength);
}

bool LayerStore::Has(const Digest& chain_id) const {
  return sys::ExistsAt(layers_.get(), NameOf(chain_id));
}

std::string LayerStore::PathOf(const Digest& chain_id) const {
  return StrCat(path_, "/", NameOf(chain_id));
}

Result<DirFd> LayerStore::OpenLayer(const Digest& chain_id) const {
  return sys::OpenDirAt(layers_.get(), NameOf(chain_id));
}

Result<StagedLayer> LayerStore::Stage(const Unpacker& unpacker, const Ingest& ingest,
                                      const std::string& name, int source,
                                      const std::vector<DirFd>& lower,
                                      const Unpacker::Meanwhile& meanwhile) const {
  // Open to nobody until it is committed: it may hold set-user-ID files.
  if (::mkdirat(ingest.dir(), name.c_str(), 0755) != 0) {
    return Error::FromErrno(errno, StrCat("mkdir ingest ", name));
  }
  ASSIGN_OR_RETURN(UniqueFd tree, sys::OpenAt(ingest.dir(), name, O_RDONLY | O_DIRECTORY));
  if (::fchmod(tree.get(), 0755) != 0) return Error::FromErrno(errno, "chmod layer directory");
  ASSIGN_OR_RETURN(const UnpackedLayer layer, unpacker.UnpackLayer(source, tree.get(), meanwhile));
  for (const std::string& path : layer.implicit) {
    RETURN_IF_ERROR(BorrowAttributes(tree.get(), path, lower));
  }
  for (const std::string& path : layer.opaque) RETURN_IF_ERROR(MarkOpaque(tree.get(), path));
  return StagedLayer{name, layer.tar.digest};
}

Result<void> LayerStore::Sync() const {
  ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenAt(layers_.get(), ".", O_RDONLY | O_DIRECTORY));
  if (::syncfs(fd.get()) != 0) return Error::FromErrno(errno, "syncfs layers");
  return {};
}

Result<void> LayerStore::Commit(const Ingest& ingest, const std::string& name,
                                const Digest& chain_id) {
  const std::string target = NameOf(chain_id);
  if (::renameat2(ingest.dir(), name.c_str(), layers_.get(), target.c_str(), RENAME_NOREPLACE) !=
      0) {
    if (errno == EEXIST) return {};  // another import was faster
    return Error::FromErrno(errno, StrCat("rename to layer ", target));
  }
  HOLDFAST_PAUSE_POINT("image.layer-named");
  ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenAt(layers_.get(), ".", O_RDONLY | O_DIRECTORY));
  if (::fsync(fd.get()) != 0) return Error::FromErrno(errno, "fsync layers");
  return {};
}

Result<std::vector<std::string>> LayerStore::List() const {
  return sys::ListDirAt(layers_.get(), ".");
}

Result<void> LayerStore::Discard(const std::string& name, Trash& trash) {
  RETURN_IF_ERROR(WithContext(trash.Take(layers_.get(), name), "layer"));
  HOLDFAST_PAUSE_POINT("image.layer-discarded");
  return {};
}

}  // namespace holdfast::runtime
