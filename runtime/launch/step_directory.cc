// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {

Result<void> MakeWorkingDirectory(Child& child, const model::LaunchPlan& plan) {
  if (plan.process.cwd == "/") return {};
  // Magic links (/proc/self/fd/7) are refused here and again on entering.
  ASSIGN_OR_RETURN(const DirFd made, sys::MakeDirsInside(child.root, plan.process.cwd, 0755));
  return {};
}

// Runs twice, before and after the identity is taken: root may be locked out of a directory (NFS
// with root_squash) and so may the user (a home with mode 0700). One of the two must succeed.
Result<void> EnterWorkingDirectory(Child& child, const model::ProcessPlan& plan) {
  if (child.in_working_directory) return {};
  const bool last_try = child.identity_taken;
  ASSIGN_OR_RETURN(const DirFd root, sys::OpenDir("/"));
  auto dir = sys::OpenInside(root.get(), plan.cwd, O_PATH | O_DIRECTORY, 0, sys::Resolve::kInRoot);
  if (!dir) {
    if (!last_try && dir.error().sys_errno() == EACCES) return {};
    return std::move(dir.error()).Wrap("chdir to cwd");
  }
  if (::fchdir(dir->get()) != 0) {
    if (!last_try && errno == EACCES) return {};
    return Error::FromErrno(errno, StrCat("chdir to cwd ", plan.cwd));
  }
  // A directory outside the root shows as "(unreachable)/…".
  char path[PATH_MAX];
  if (::getcwd(path, sizeof path) == nullptr || path[0] != '/') {
    return Error(Code::kPermissionDenied, StrCat("chdir to cwd ", plan.cwd, ": outside the root"));
  }
  child.in_working_directory = true;
  return {};
}

}  // namespace holdfast::runtime
