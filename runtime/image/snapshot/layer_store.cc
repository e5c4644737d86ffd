// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/snapshot/layer_store.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>
#include <string_view>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/image/content/digest.h"

namespace holdfast::runtime {
namespace {

// 128 bits: 40 layers and more fit one page of mount options.
constexpr size_t kNameLength = 32;
constexpr const char* kOpaque = "trusted.overlay.opaque";

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
  if (::fsetxattr(fd->get(), kOpaque, "y", 1, 0) != 0) {
    return Error::FromErrno(errno, "setxattr trusted.overlay.opaque");
  }
  return {};
}

// What containers have set on a lower directory; overlayfs' own attributes stay where they are.
Result<void> BorrowXattrs(int from, int to) {
  if (::flistxattr(from, nullptr, 0) == 0) return {};
  std::vector<char> names(XATTR_LIST_MAX);
  const ssize_t size = ::flistxattr(from, names.data(), names.size());
  if (size < 0) {
    return errno == EOPNOTSUPP ? Result<void>() : Error::FromErrno(errno, "list xattrs");
  }
  std::vector<char> value(XATTR_SIZE_MAX);
  for (const char* name = names.data(); name < names.data() + size; name += ::strlen(name) + 1) {
    const std::string_view key(name);
    if (!key.starts_with("user.") || key.starts_with("user.overlay.")) continue;
    const ssize_t length = ::fgetxattr(from, name, value.data(), value.size());
    if (length < 0 || ::fsetxattr(to, name, value.data(), static_cast<size_t>(length), 0) != 0) {
      return Error::FromErrno(errno, "borrow a lower directory's xattr");
    }
  }
  return {};
}

bool IsOpaque(int directory) {
  char value = 0;
  return ::fgetxattr(directory, kOpaque, &value, 1) == 1 && value == 'y';
}

// One part further down, for as long as there are directories.
Result<UniqueFd> OpenPart(int directory, std::string_view part) {
  return sys::OpenInside(directory, std::string(part), O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
                         sys::Resolve::kNoLinks);
}

// The directory of lower layers that shows at `path`; none where nothing does, or no directory.
Result<UniqueFd> OpenShowing(std::string_view path, const std::vector<DirFd>& lower) {
  for (auto layer = lower.rbegin(); layer != lower.rend(); ++layer) {
    ASSIGN_OR_RETURN(UniqueFd at, sys::OpenAt(layer->get(), ".", O_RDONLY | O_DIRECTORY));
    bool hides_lower = false;
    std::string_view rest = path;
    while (!rest.empty()) {
      auto next = OpenPart(at.get(), rest.substr(0, rest.find('/')));
      if (!next && next.error().sys_errno() == ENOENT) break;
      if (!next && IsAbsent(next.error())) return UniqueFd();
      if (!next) return std::move(next.error());
      at = std::move(*next);
      hides_lower = hides_lower || IsOpaque(at.get());
      rest.remove_prefix(std::min(rest.find('/'), rest.size() - 1) + 1);
    }
    if (rest.empty()) return at;
    if (hides_lower) return UniqueFd();
  }
  return UniqueFd();
}

using Directories = std::set<std::string, std::less<>>;

bool IsBelowOneOf(const Directories& directories, std::string_view path) {
  if (path.empty()) return false;
  for (size_t end = path.rfind('/'); end != std::string_view::npos; end = path.rfind('/')) {
    path = path.substr(0, end);
    if (directories.contains(path)) return true;
  }
  return directories.contains("");
}

Result<void> BorrowAttributes(int tree, const std::string& path, const std::vector<DirFd>& lower) {
  ASSIGN_OR_RETURN(const UniqueFd from, OpenShowing(path, lower));
  if (!from) return {};
  auto to = OpenReported(tree, path);
  if (!to && IsAbsent(to.error())) return {};
  if (!to) return std::move(to.error());
  struct stat st{};
  if (::fstat(from.get(), &st) != 0) return Error::FromErrno(errno, "stat lower directory");
  RETURN_IF_ERROR(BorrowXattrs(from.get(), to->get()));
  const timespec times[2] = {st.st_mtim, st.st_mtim};
  if (::fchown(to->get(), st.st_uid, st.st_gid) != 0 ||
      ::fchmod(to->get(), st.st_mode & 07777) != 0 || ::futimens(to->get(), times) != 0) {
    return Error::FromErrno(errno, "borrow a lower directory's owner, mode and time");
  }
  return {};
}

}  // namespace

LayerStore::LayerStore(DirFd layers, std::string path)
    : layers_(std::move(layers)), path_(std::move(path)) {}

Result<LayerStore> LayerStore::Open(int root, const std::string& path) {
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
  const Directories opaque(layer.opaque.begin(), layer.opaque.end());
  for (const std::string& path : layer.implicit) {
    if (!IsBelowOneOf(opaque, path)) RETURN_IF_ERROR(BorrowAttributes(tree.get(), path, lower));
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
