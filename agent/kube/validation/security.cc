// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <set>

#include "agent/kube/sysctl_names.h"
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/shown.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr int64_t kMostId = std::numeric_limits<int32_t>::max();
constexpr size_t kSysctlLength = 253;
constexpr size_t kProfileLength = 4095;
constexpr char kSysctlRule[] =
    "must have at most 253 characters and match regex "
    "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

void CheckId(int64_t id, const std::string& path, Report* report) {
  if (id < 0 || id > kMostId) report->InvalidNumber(path, id, InclusiveRange(0, kMostId));
}

void CheckSeccomp(const corev1::SeccompProfile& profile, const std::string& path, Report* report) {
  if (profile.type().empty()) {
    report->Required(Child(path, "type"), "type is required when seccompProfile is set");
  } else {
    report->OneOf(Child(path, "type"), profile.type(),
                  {"Localhost", "RuntimeDefault", "Unconfined"});
  }
  const std::string here = Child(path, "localhostProfile");
  if (profile.type() != "Localhost") {
    if (profile.has_localhostprofile()) {
      report->InvalidLiteral(here, ShownJson(profile),
                             "can only be set when seccomp type is Localhost");
    }
  } else if (!profile.has_localhostprofile()) {
    report->Required(here, "must be set when seccomp type is Localhost");
  } else {
    CheckRelativePath(profile.localhostprofile(), here, report);
  }
}

void CheckAppArmor(const corev1::AppArmorProfile& profile, const std::string& path,
                   Report* report) {
  const std::string here = Child(path, "localhostProfile");
  const std::string& name = profile.localhostprofile();
  if (profile.type().empty()) {
    report->Required(Child(path, "type"), "type is required when appArmorProfile is set");
  } else if (profile.type() == "Localhost") {
    const bool padded = name.find_first_of(" \t\n") == 0 ||
                        (!name.empty() && name.find_last_of(" \t\n") == name.size() - 1);
    if (padded) {
      report->Invalid(here, name, "must not be padded with whitespace");
    } else if (name.empty()) {
      report->Required(here, "must be set when AppArmor type is Localhost");
    }
    if (name.size() > kProfileLength) report->TooLong(here, kProfileLength);
  } else if (report->OneOf(Child(path, "type"), profile.type(),
                           {"Localhost", "RuntimeDefault", "Unconfined"}) &&
             profile.has_localhostprofile()) {
    report->Invalid(here, name, "can only be set when AppArmor type is Localhost");
  }
}

bool IsSysctlName(std::string_view name) {
  const auto word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (name.size() > kSysctlLength) return false;
  while (true) {
    const size_t end = name.find_first_of("./");
    const std::string_view part = name.substr(0, end);
    const bool valid = !part.empty() && word(part.front()) && word(part.back()) &&
                       std::all_of(part.begin(), part.end(),
                                   [&](char c) { return word(c) || c == '-' || c == '_'; });
    if (!valid) return false;
    if (end == std::string_view::npos) return true;
    name.remove_prefix(end + 1);
  }
}

// A host's own settings are not a pod's to set.
void CheckHostSysctl(const std::string& written, const corev1::PodSpec& spec,
                     const std::string& path, Report* report) {
  const std::string name = DottedSysctl(written);
  static constexpr std::string_view kIpc[] = {
      "kernel.sem",    "kernel.shm", "kernel.shmall", "kernel.shmmax", "kernel.shm_rmid_forced",
      "kernel.shmmni", "kernel.msg", "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni"};
  const bool ipc = name.starts_with("fs.mqueue.") ||
                   std::find(std::begin(kIpc), std::end(kIpc), name) != std::end(kIpc);
  if (spec.hostnetwork() && name.starts_with("net.")) {
    report->Invalid(path, written, "may not be specified when 'hostNetwork' is true");
  } else if (spec.hostipc() && ipc) {
    report->Invalid(path, written, "may not be specified when 'hostIPC' is true");
  }
}

void CheckSysctls(const corev1::PodSecurityContext& context, const corev1::PodSpec& spec,
                  const std::string& path, Report* report) {
  std::set<std::string> names;
  for (int i = 0; i < context.sysctls_size(); ++i) {
    const std::string& name = context.sysctls(i).name();
    const std::string here = Child(Index(path, i), "name");
    if (name.empty()) {
      report->Required(here);
    } else if (!IsSysctlName(name)) {
      report->Invalid(here, name, kSysctlRule);
    } else if (!names.insert(name).second) {
      report->Duplicate(here, name);
    }
    CheckHostSysctl(name, spec, here, report);
  }
}

void CheckUserNamespace(const corev1::PodSpec& spec, Report* report) {
  if (!spec.has_hostusers() || spec.hostusers()) return;
  const auto forbid = [&](bool present, std::string path) {
    if (present) report->Forbidden(std::move(path), "when `hostUsers` is false");
  };
  forbid(spec.hostnetwork(), "spec.hostNetwork");
  forbid(spec.hostpid(), "spec.HostPID");
  forbid(spec.hostipc(), "spec.HostIPC");
  for (int i = 0; i < spec.initcontainers_size(); ++i) {
    forbid(!spec.initcontainers(i).volumedevices().empty(),
           Child(Index("spec.initContainers", i), "volumeDevices"));
  }
  for (int i = 0; i < spec.containers_size(); ++i) {
    forbid(!spec.containers(i).volumedevices().empty(),
           Child(Index("spec.containers", i), "volumeDevices"));
  }
}

void CheckPodContext(const corev1::PodSecurityContext& context, const corev1::PodSpec& spec,
                     const std::string& path, Report* report) {
  if (context.has_fsgroup()) CheckId(context.fsgroup(), Child(path, "fsGroup"), report);
  if (context.has_runasuser()) CheckId(context.runasuser(), Child(path, "runAsUser"), report);
  if (context.has_runasgroup()) CheckId(context.runasgroup(), Child(path, "runAsGroup"), report);
  for (int i = 0; i < context.supplementalgroups_size(); ++i) {
    CheckId(context.supplementalgroups(i), Index(Child(path, "supplementalGroups"), i), report);
  }
  if (spec.shareprocessnamespace() && spec.hostpid()) {
    report->InvalidLiteral("spec.shareProcessNamespace", "true",
                           "ShareProcessNamespace and HostPID cannot both be enabled");
  }
  CheckSysctls(context, spec, Child(path, "sysctls"), report);
  if (context.has_fsgroupchangepolicy()) {
    report->OneOfShown(Child(path, "fsGroupChangePolicy"), context.fsgroupchangepolicy(),
                       {"Always", "OnRootMismatch"});
  }
  if (context.has_seccompprofile()) {
    CheckSeccomp(context.seccompprofile(), Child(path, "seccompProfile"), report);
  }
  if (context.has_apparmorprofile()) {
    CheckAppArmor(context.apparmorprofile(), Child(path, "appArmorProfile"), report);
  }
  if (context.has_windowsoptions()) {
    CheckWindowsOptions(context.windowsoptions(), Child(path, "windowsOptions"), report);
  }
  if (context.has_supplementalgroupspolicy()) {
    report->OneOfShown(Child(path, "supplementalGroupsPolicy"), context.supplementalgroupspolicy(),
                       {"Merge", "Strict"});
  }
  // MountOption is for clusters whose volume plugins mount with a label.
  if (context.has_selinuxchangepolicy()) {
    report->OneOfShown(Child(path, "seLinuxChangePolicy"), context.selinuxchangepolicy(),
                       {"Recursive"});
  }
}

// A container that may not gain privileges cannot have been given all of them.
void CheckEscalation(const corev1::SecurityContext& context, const std::string& path,
                     Report* report) {
  if (!context.has_allowprivilegeescalation() || context.allowprivilegeescalation()) return;
  const std::string value = ShownJson(context);
  if (context.privileged()) {
    report->InvalidLiteral(
        path, value, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
  }
  const auto& added = context.capabilities().add();
  for (auto count = std::count(added.begin(), added.end(), "CAP_SYS_ADMIN"); count > 0; --count) {
    report->InvalidLiteral(path, value,
                           "cannot set `allowPrivilegeEscalation` to false and "
                           "`capabilities.Add` CAP_SYS_ADMIN");
  }
}

}  // namespace

void CheckSecurityContext(const corev1::SecurityContext& context, const corev1::PodSpec& spec,
                          const std::string& path, Report* report) {
  if (context.has_runasuser()) CheckId(context.runasuser(), Child(path, "runAsUser"), report);
  if (context.has_runasgroup()) CheckId(context.runasgroup(), Child(path, "runAsGroup"), report);
  if (context.has_procmount()) {
    const std::string here = Child(path, "procMount");
    report->OneOfShown(here, context.procmount(), {"Default", "Unmasked"});
    const bool host_users = !spec.has_hostusers() || spec.hostusers();
    if (host_users && context.procmount() == "Unmasked") {
      report->Invalid(here, "Unmasked", "`hostUsers` must be false to use `Unmasked`");
    }
  }
  if (context.has_seccompprofile()) {
    CheckSeccomp(context.seccompprofile(), Child(path, "seccompProfile"), report);
  }
  CheckEscalation(context, path, report);
  if (context.has_windowsoptions()) {
    CheckWindowsOptions(context.windowsoptions(), Child(path, "windowsOptions"), report);
  }
  if (context.has_apparmorprofile()) {
    CheckAppArmor(context.apparmorprofile(), Child(path, "appArmorProfile"), report);
  }
}

void CheckPodSecurity(const corev1::PodSpec& spec, Report* report) {
  CheckPodContext(spec.securitycontext(), spec, "spec.securityContext", report);
  CheckUserNamespace(spec, report);
}

}  // namespace holdfast::agent::kube
