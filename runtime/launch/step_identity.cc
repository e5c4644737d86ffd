// SPDX-License-Identifier: Apache-2.0
// User, groups and capabilities. What the process can do after exec follows from the bounding and
// inheritable sets and the user; the permitted set of before is not inherited.
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "runtime/launch/filter.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

constexpr uint64_t kSysAdmin = 1ull << CAP_SYS_ADMIN;

Result<void> DropBoundingSet(uint64_t keep, uint32_t last) {
  for (uint32_t capability = 0; capability <= last; ++capability) {
    if ((keep >> capability & 1) != 0) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
      return Error::FromErrno(errno,
                              StrCat("drop capability ", capability, " from the bounding set"));
    }
  }
  return {};
}

Result<void> SetIds(const model::ProcessPlan& plan) {
  static_assert(sizeof(gid_t) == sizeof(uint32_t));
  // The raw calls: glibc's wrappers synchronise threads that this process does not have.
  if (::syscall(SYS_setgroups, plan.groups.size(), plan.groups.data()) != 0) {
    return Error::FromErrno(errno, "setgroups");
  }
  if (::syscall(SYS_setresgid, plan.gid, plan.gid, plan.gid) != 0) {
    return Error::FromErrno(errno, StrCat("setresgid ", plan.gid));
  }
  if (::syscall(SYS_setresuid, plan.uid, plan.uid, plan.uid) != 0) {
    return Error::FromErrno(errno, StrCat("setresuid ", plan.uid));
  }
  return {};
}

Result<uint64_t> PermittedNow() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) != 0) return Error::FromErrno(errno, "capget");
  return static_cast<uint64_t>(data[1].permitted) << 32 | data[0].permitted;
}

Result<void> SetCapabilities(const model::CapabilityPlan& plan) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  for (int half = 0; half < 2; ++half) {
    data[half].effective = static_cast<uint32_t>(plan.effective >> (32 * half));
    data[half].permitted = static_cast<uint32_t>(plan.permitted >> (32 * half));
    data[half].inheritable = static_cast<uint32_t>(plan.inheritable >> (32 * half));
  }
  if (::syscall(SYS_capset, &header, data) != 0) return Error::FromErrno(errno, "capset");
  return {};
}

Result<void> RaiseAmbient(uint64_t ambient, uint32_t last) {
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) {
    return Error::FromErrno(errno, "clear ambient capabilities");
  }
  for (uint32_t capability = 0; capability <= last; ++capability) {
    if ((ambient >> capability & 1) == 0) continue;
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0) {
      return Error::FromErrno(errno, StrCat("raise ambient capability ", capability));
    }
  }
  return {};
}

// With no_new_privs nothing is needed; without, loading a filter takes CAP_SYS_ADMIN.
uint64_t NeededForSeccomp(const model::ProcessPlan& plan) {
  return plan.seccomp.program.empty() || plan.no_new_privs ? 0 : kSysAdmin;
}

// What the host has of it: the launcher may itself be a container's.
model::CapabilityPlan Attainable(const model::CapabilityPlan& wanted, uint64_t have) {
  model::CapabilityPlan plan = wanted;
  plan.effective = wanted.effective & have;
  plan.permitted = wanted.permitted & have;
  plan.inheritable = wanted.inheritable & have;
  plan.ambient = wanted.ambient & plan.inheritable;
  return plan;
}

}  // namespace

Result<void> TakeIdentity(Child& child, const model::ProcessPlan& plan) {
  const model::CapabilityPlan& wanted = plan.capabilities;
  const uint32_t last = child.facts().last_capability;
  RETURN_IF_ERROR(DropBoundingSet(wanted.bounding, last));
  // Kept over the change of user, and given up at the latest by exec.
  if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return Error::FromErrno(errno, "PR_SET_KEEPCAPS");
  RETURN_IF_ERROR(SetIds(plan));
  if (::prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) != 0) return Error::FromErrno(errno, "PR_SET_KEEPCAPS");

  ASSIGN_OR_RETURN(const uint64_t have, PermittedNow());
  child.capabilities = Attainable(wanted, have);
  child.for_seccomp = NeededForSeccomp(plan) & have;
  model::CapabilityPlan now = child.capabilities;
  now.permitted |= child.for_seccomp;
  RETURN_IF_ERROR(SetCapabilities(now));
  RETURN_IF_ERROR(RaiseAmbient(now.ambient, last));
  if (plan.no_new_privs && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return Error::FromErrno(errno, "PR_SET_NO_NEW_PRIVS");
  }
  // A change of user sets it to fs.suid_dumpable, which an administrator may have opened.
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return Error::FromErrno(errno, "PR_SET_DUMPABLE");
  child.identity_taken = true;
  return {};
}

Result<void> RaiseForSeccomp(const Child& child) {
  if (child.for_seccomp == 0) return {};
  model::CapabilityPlan now = child.capabilities;
  now.permitted |= child.for_seccomp;
  now.effective |= child.for_seccomp;
  return SetCapabilities(now);
}

Result<void> LowerAfterSeccomp(const Child& child, const model::ProcessPlan& plan) {
  if (child.for_seccomp == 0 || !FilterAllows(plan.seccomp.program, SYS_capset)) return {};
  return SetCapabilities(child.capabilities);
}

}  // namespace holdfast::runtime
