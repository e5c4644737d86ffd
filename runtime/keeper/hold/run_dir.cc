// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/hold/run_dir.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::runtime::keeper {
namespace {

bool IsTmpfs(const std::string& dir) {
  struct statfs fs{};
  return ::statfs(dir.c_str(), &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

}  // namespace

Result<std::vector<std::string>> EnsureRunDir(const std::string& run_dir) {
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, run_dir, 0755));
  std::vector<std::string> warnings;
  if (IsTmpfs(run_dir)) return warnings;
  ASSIGN_OR_RETURN(const UniqueFd lock,
                   sys::OpenAt(AT_FDCWD, StrCat(run_dir, ".lock"), O_RDWR | O_CREAT, 0600));
  if (::flock(lock.get(), LOCK_EX) != 0) {
    return Error::FromErrno(errno, StrCat("flock ", run_dir, ".lock"));
  }
  HOLDFAST_PAUSE_POINT("keeper.before-mount-run-dir");
  if (IsTmpfs(run_dir)) return warnings;
  if (::mount("holdfast", run_dir.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") != 0) {
    const Error error = Error::FromErrno(errno, StrCat("mount tmpfs on ", run_dir));
    warnings.push_back(StrCat(error.message(), ", using the directory as it is"));
  }
  return warnings;
}

}  // namespace holdfast::runtime::keeper
