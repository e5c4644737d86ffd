// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/namespaces.h"

#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "holdfast/base/strings.h"

namespace holdfast::sys {

Result<bool> SharesNamespace(pid_t pid, const char* name) {
  struct stat ours{};
  struct stat theirs{};
  const std::string own_path = StrCat("/proc/self/ns/", name);
  const std::string their_path = StrCat("/proc/", pid, "/ns/", name);
  if (::stat(own_path.c_str(), &ours) != 0) return Error::FromErrno(errno, "stat " + own_path);
  if (::stat(their_path.c_str(), &theirs) != 0) {
    return Error::FromErrno(errno, "stat " + their_path);
  }
  return ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

}  // namespace holdfast::sys
