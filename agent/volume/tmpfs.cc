// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/tmpfs.h"

#include <sys/mount.h>

#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/mount.h"

namespace holdfast::agent {
namespace {

bool TakesNoswap() {
  const auto context = sys::OpenFilesystem("tmpfs");
  return context && sys::SetFlag(context->get(), "noswap");
}

}  // namespace

bool KeepsTmpfsFromSwap() {
  static const bool takes = TakesNoswap();
  return takes;
}

Result<void> MountTmpfs(const char* source, const std::string& path, unsigned long flags,
                        std::string options) {
  if (KeepsTmpfsFromSwap()) options += ",noswap";
  if (::mount(source, path.c_str(), "tmpfs", flags, options.c_str()) != 0) {
    return Error::FromErrno(errno, StrCat("mount tmpfs on ", path));
  }
  return {};
}

}  // namespace holdfast::agent
