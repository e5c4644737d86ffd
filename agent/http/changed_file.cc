// SPDX-License-Identifier: Apache-2.0
#include "agent/http/changed_file.h"

#include <fcntl.h>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMostBytes = 4u << 20;

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

}  // namespace

Result<std::optional<std::string>> ChangedFile::ReadIfChanged() {
  ASSIGN_OR_RETURN(const UniqueFd file, sys::OpenAt(AT_FDCWD, path_, O_RDONLY));
  struct stat now{};
  if (::fstat(file.get(), &now) != 0) return Error::FromErrno(errno, StrCat("fstat ", path_));
  if (IsSame(now, last_)) return std::optional<std::string>();
  ASSIGN_OR_RETURN(std::string text, WithContext(sys::ReadFd(file.get(), kMostBytes), path_));
  last_ = now;
  return std::optional<std::string>(std::move(text));
}

}  // namespace holdfast::agent
