// SPDX-License-Identifier: Apache-2.0
// Source: proc_pid_attr(5), selinux(8). The kernel checks the label now, carries it over fork and puts the program under it at
// execve, where the policy allows that transition. Keys have the label of who makes them: nothing here makes one before.
#include <fcntl.h>
#include <sys/xattr.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {

Result<void> SetSelinux(Child& child, const model::ProcessPlan& plan) {
  if (plan.selinux.empty()) return {};
  auto written = sys::WriteControlAt(child.proc(), "self/attr/exec", plan.selinux);
  if (written) return written;
  return std::move(written.error()).Wrap(StrCat("SELinux label \"", plan.selinux, "\""));
}

Result<void> SetLabelOfAll(int context, const std::string& label) {
  return label.empty() ? Result<void>() : sys::SetOption(context, "context", label);
}

std::string LabelOption(const std::string& label) {
  return label.empty() ? "" : StrCat(",context=\"", label, "\"");  // a label has commas
}

Result<void> LabelTop(int mount, const std::string& label) {
  if (label.empty()) return {};
  ASSIGN_OR_RETURN(const UniqueFd top, sys::OpenAt(mount, ".", O_RDONLY | O_DIRECTORY));
  if (::fsetxattr(top.get(), "security.selinux", label.data(), label.size(), 0) == 0 ||
      errno == EOPNOTSUPP) {
    return {};
  }
  return Error::FromErrno(errno, StrCat("setxattr security.selinux ", label));
}

}  // namespace holdfast::runtime
