// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/log_links.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {

Result<void> LinkLog(const std::string& directory, const PodPaths& paths,
                     const std::string& container, uint32_t attempt, const ContainerId& id) {
  const std::string link = paths.LogLink(container, id);
  RETURN_IF_ERROR(WithContext(sys::MakeDirs(AT_FDCWD, directory, 0755), StrCat("link ", link)));
  if (::symlinkat(paths.LogFile(container, attempt).c_str(), AT_FDCWD, link.c_str()) != 0 &&
      errno != EEXIST) {
    return Error::FromErrno(errno, StrCat("link ", link));
  }
  return {};
}

Result<void> RemoveLogLinks(const std::string& directory, const PodPaths& paths) {
  const auto links = sys::OpenDir(directory);
  if (!links) return {};  // none was ever made
  const std::string prefix = paths.LogLinkPrefix();
  ASSIGN_OR_RETURN(const auto names, sys::ListDirAt(links->get(), "."));
  for (const std::string& name : names) {
    if (!name.starts_with(prefix)) continue;
    std::string target(4096, '\0');
    const ssize_t n = ::readlinkat(links->get(), name.c_str(), target.data(), target.size());
    target.resize(n > 0 ? static_cast<size_t>(n) : 0);
    if (target.starts_with(paths.LogDir() + "/")) {
      RETURN_IF_ERROR(sys::RemoveFileAt(links->get(), name));
    }
  }
  return {};
}

}  // namespace holdfast::agent
