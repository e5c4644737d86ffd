// SPDX-License-Identifier: Apache-2.0
// Source: apparmor(7), aa_change_onexec(2). The kernel looks the profile up now, applies it at the program's execve, and
// carries it over fork. no_new_privs, which is set later, does not stop that for a launcher without a profile.
#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {

Result<void> SetAppArmor(Child& child, const model::ProcessPlan& plan) {
  if (plan.app_armor.empty()) return {};
  auto written =
      sys::WriteControlAt(child.proc(), "self/attr/apparmor/exec", StrCat("exec ", plan.app_armor));
  if (written) return written;
  return std::move(written.error()).Wrap(StrCat("AppArmor profile \"", plan.app_armor, "\""));
}

}  // namespace holdfast::runtime
