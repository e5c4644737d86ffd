// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/host_path.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

struct Type {
  const char* name;
  mode_t kind;
  const char* noun;
};
constexpr Type kTypes[] = {
    {"DirectoryOrCreate", S_IFDIR, "directory"},
    {"Directory", S_IFDIR, "directory"},
    {"FileOrCreate", S_IFREG, "file"},
    {"File", S_IFREG, "file"},
    {"Socket", S_IFSOCK, "socket"},
    {"CharDevice", S_IFCHR, "character device"},
    {"BlockDevice", S_IFBLK, "block device"},
};

Result<void> Create(const std::string& path, mode_t kind) {
  if (kind == S_IFDIR) {
    RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, path, 0755));
  } else {
    RETURN_IF_ERROR(sys::OpenAt(AT_FDCWD, path, O_WRONLY | O_CREAT, 0644));
  }
  HOLDFAST_PAUSE_POINT("agent.volume.host_path_made");
  return {};
}

}  // namespace

Result<void> EnsureHostPath(const std::string& path, const std::string& type) {
  struct stat st{};
  bool exists = ::stat(path.c_str(), &st) == 0;
  if (type.empty()) {
    // Not checked, but made when missing, so that the mount has a source.
    if (!exists) return Create(path, S_IFDIR);
    return {};
  }
  for (const Type& known : kTypes) {
    if (type != known.name) continue;
    if (!exists && type.ends_with("OrCreate")) {
      RETURN_IF_ERROR(Create(path, known.kind));
      exists = ::stat(path.c_str(), &st) == 0;
    }
    if (exists && (st.st_mode & S_IFMT) == known.kind) return {};
    return InvalidArgument(StrCat("hostPath type check failed: ", path, " is not a ", known.noun));
  }
  return InvalidArgument(StrCat("unknown hostPath type \"", type, "\""));
}

}  // namespace holdfast::agent
