// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/volume_text.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "holdfast/sys/files.h"

namespace holdfast::agent {

// Looked at first, by a descriptor that opens nothing: no FIFO blocks, no device notices.
Result<std::string> ReadVolumeText(const std::string& volume, const std::string& path,
                                   size_t limit) {
  ASSIGN_OR_RETURN(const DirFd root, sys::OpenDir(volume));
  ASSIGN_OR_RETURN(const UniqueFd found,
                   sys::OpenInside(root.get(), path, O_PATH, 0, sys::Resolve::kInRoot));
  struct stat info{};
  if (::fstat(found.get(), &info) != 0) return Error::FromErrno(errno, "fstat " + path);
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path + ": no regular file");
  ASSIGN_OR_RETURN(const UniqueFd file, sys::Reopen(found.get(), O_RDONLY));
  return WithContext(sys::ReadFd(file.get(), limit), path);
}

}  // namespace holdfast::agent
