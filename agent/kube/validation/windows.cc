// SPDX-License-Identifier: Apache-2.0
// Options of Windows, and what a pod of one system may not have of the other's. No such pod runs
// here; its faults are those that an API server names.
#include <google/protobuf/message.h>

#include <algorithm>
#include <string_view>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr size_t kSpecBytes = 64u << 10;
constexpr size_t kUserDomainLength = 256;
constexpr size_t kUserLength = 104;
constexpr size_t kNetBiosLength = 15;
constexpr char kNotOnWindows[] = "cannot be set for a windows pod";

bool IsNetBios(std::string_view domain) {
  return !domain.empty() && domain.size() <= kNetBiosLength && domain[0] != '.' &&
         domain.find_first_of("\\/:*?\"<>|") == std::string_view::npos;
}

// The faults of "DOMAIN\USER", which has no more than one backslash.
Faults UserFaults(std::string_view name) {
  Faults faults;
  const size_t slash = name.find('\\');
  const bool has_domain = slash != std::string_view::npos;
  const std::string_view domain = has_domain ? name.substr(0, slash) : "";
  const std::string_view user = has_domain ? name.substr(slash + 1) : name;
  if (domain.size() >= kUserDomainLength) {
    faults.emplace_back("runAsUserName's Domain length must be under 256 characters");
  }
  if (has_domain && !IsNetBios(domain) && !IsSubdomainOfAnyCase(domain)) {
    faults.emplace_back("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
  }
  if (user.empty()) {
    faults.emplace_back("runAsUserName's User cannot be empty");
  } else if (user.size() > kUserLength) {
    faults.emplace_back("runAsUserName's User length must not be longer than 104 characters");
  }
  if (!user.empty() && user.find_first_not_of(". ") == std::string_view::npos) {
    faults.emplace_back("runAsUserName's User cannot contain only periods or spaces");
  }
  if (user.find_first_of("\"/\\:;|=,+*?<>@[]") != std::string_view::npos) {
    faults.emplace_back(
        "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
  }
  return faults;
}

Faults CheckUserName(std::string_view name) {
  if (name.empty()) return {"runAsUserName cannot be an empty string"};
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; };
  if (std::any_of(name.begin(), name.end(), is_control)) {
    return {"runAsUserName cannot contain control characters"};
  }
  if (std::count(name.begin(), name.end(), '\\') > 1) {
    return {"runAsUserName cannot contain more than one backslash"};
  }
  return UserFaults(name);
}

struct Presence {
  bool there;
  const char* field;
};

template <size_t N>
void ForbidEach(const Presence (&fields)[N], const std::string& path, const char* why,
                Report* report) {
  for (const Presence& field : fields) {
    if (field.there) report->Forbidden(Child(path, field.field), why);
  }
}

void CheckPodOfWindows(const corev1::PodSpec& spec, Report* report) {
  const corev1::PodSecurityContext& context = spec.securitycontext();
  ForbidEach({{spec.has_hostusers(), "hostUsers"},
              {spec.hostpid(), "hostPID"},
              {spec.hostipc(), "hostIPC"},
              {spec.has_shareprocessnamespace(), "shareProcessNamespace"}},
             "spec", kNotOnWindows, report);
  ForbidEach({{context.has_apparmorprofile(), "appArmorProfile"},
              {context.has_selinuxoptions(), "seLinuxOptions"},
              {context.has_seccompprofile(), "seccompProfile"},
              {context.has_fsgroup(), "fsGroup"},
              {context.has_fsgroupchangepolicy(), "fsGroupChangePolicy"},
              {context.sysctls_size() > 0, "sysctls"},
              {context.has_runasuser(), "runAsUser"},
              {context.has_runasgroup(), "runAsGroup"},
              {context.supplementalgroups_size() > 0, "supplementalGroups"},
              {context.has_supplementalgroupspolicy(), "supplementalGroupsPolicy"},
              {context.has_selinuxchangepolicy(), "seLinuxChangePolicy"}},
             "spec.securityContext", kNotOnWindows, report);
}

void CheckContainerOfWindows(const corev1::SecurityContext& context, const std::string& path,
                             Report* report) {
  ForbidEach({{context.has_apparmorprofile(), "appArmorProfile"},
              {context.has_selinuxoptions(), "seLinuxOptions"},
              {context.has_seccompprofile(), "seccompProfile"},
              {context.has_capabilities(), "capabilities"},
              {context.has_readonlyrootfilesystem(), "readOnlyRootFilesystem"},
              {context.has_privileged(), "privileged"},
              {context.has_allowprivilegeescalation(), "allowPrivilegeEscalation"},
              {context.has_procmount(), "procMount"},
              {context.has_runasuser(), "runAsUser"},
              {context.has_runasgroup(), "runAsGroup"}},
             path, kNotOnWindows, report);
}

// Calls `visit` with each container's security context and its path; init containers first.
template <class Visit>
void ForEachContext(const corev1::PodSpec& spec, Visit visit) {
  for (int i = 0; i < spec.initcontainers_size(); ++i) {
    visit(spec.initcontainers(i).securitycontext(),
          Child(Index("spec.initContainers", i), "securityContext"));
  }
  for (int i = 0; i < spec.containers_size(); ++i) {
    visit(spec.containers(i).securitycontext(),
          Child(Index("spec.containers", i), "securityContext"));
  }
}

}  // namespace

void CheckWindowsOptions(const corev1::WindowsSecurityContextOptions& options,
                         const std::string& path, Report* report) {
  if (options.has_gmsacredentialspecname()) {
    report->InvalidEach(Child(path, "gmsaCredentialSpecName"), options.gmsacredentialspecname(),
                        CheckDns1123Subdomain(options.gmsacredentialspecname()));
  }
  const std::string spec = Child(path, "gmsaCredentialSpec");
  if (options.has_gmsacredentialspec() && options.gmsacredentialspec().empty()) {
    report->Invalid(spec, "", "gmsaCredentialSpec cannot be an empty string");
  } else if (options.gmsacredentialspec().size() > kSpecBytes) {
    report->Invalid(spec, options.gmsacredentialspec(),
                    "gmsaCredentialSpec size must be under 64 KiB");
  }
  if (options.has_runasusername()) {
    report->InvalidEach(Child(path, "runAsUserName"), options.runasusername(),
                        CheckUserName(options.runasusername()));
  }
}

void CheckHostProcess(const corev1::PodSpec& spec, Report* report) {
  const corev1::WindowsSecurityContextOptions& of_pod = spec.securitycontext().windowsoptions();
  int containers = 0;
  int host_processes = 0;
  ForEachContext(spec, [&](const corev1::SecurityContext& context, const std::string& path) {
    const corev1::WindowsSecurityContextOptions& own = context.windowsoptions();
    ++containers;
    const bool differ = own.has_hostprocess() && of_pod.has_hostprocess() &&
                        own.hostprocess() != of_pod.hostprocess();
    if (differ) {
      report->InvalidLiteral(
          Child(path, "windowsOptions.hostProcess"), own.hostprocess() ? "true" : "false",
          StrCat("pod hostProcess value must be identical if both are specified, was ",
                 of_pod.hostprocess() ? "true" : "false"));
    }
    host_processes += own.has_hostprocess() ? own.hostprocess() : of_pod.hostprocess();
  });
  if (host_processes == 0) return;
  if (host_processes != containers) {
    report->Invalid("spec", "",
                    "If pod contains any hostProcess containers then all containers must be "
                    "HostProcess containers");
  }
  if (!spec.hostnetwork()) {
    report->InvalidLiteral("spec.hostNetwork", "false",
                           "hostNetwork must be true if pod contains any hostProcess containers");
  }
}

void CheckSystem(const corev1::PodSpec& spec, Report* report) {
  constexpr char kNotOnLinux[] = "windows options cannot be set for a linux pod";
  const bool windows = spec.os().name() == "windows";
  if (windows) CheckPodOfWindows(spec, report);
  if (!windows && spec.securitycontext().has_windowsoptions()) {
    report->Forbidden("spec.securityContext.windowsOptions", kNotOnLinux);
  }
  ForEachContext(spec, [&](const corev1::SecurityContext& context, const std::string& path) {
    if (windows) CheckContainerOfWindows(context, path, report);
    if (!windows && context.has_windowsoptions()) {
      report->Forbidden(Child(path, "windowsOptions"), kNotOnLinux);
    }
  });
}

}  // namespace holdfast::agent::kube
