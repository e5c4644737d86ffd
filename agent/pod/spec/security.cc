// SPDX-License-Identifier: Apache-2.0
// securityContext of pod and container -> user and security settings.
#include <algorithm>
#include <charconv>
#include <utility>

#include "agent/kube/app_armor.h"
#include "agent/pod/spec/container_spec_builder.h"
#include "agent/pod/spec/selinux.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

std::string Which(const ContainerBuild& build) {
  const auto& meta = build.pod.metadata();
  return StrCat("(pod: \"", meta.name(), "_", meta.namespace_(), "(", meta.uid(),
                ")\", container: ", build.container.name(), ")");
}

std::unexpected<StartFailure> Refuse(std::string text) {
  return std::unexpected(
      StartFailure{StartFailure::Phase::kConfig, InvalidArgument(std::move(text))});
}

std::string BareCapability(const std::string& name) {
  return name.starts_with("CAP_") ? name.substr(4) : name;
}

model::SecuritySpec::Seccomp SeccompOf(const std::string& type) {
  if (type == "Unconfined") return model::SecuritySpec::Seccomp::kUnconfined;
  if (type == "Localhost") return model::SecuritySpec::Seccomp::kLocalhost;
  return model::SecuritySpec::Seccomp::kRuntimeDefault;
}

void FillSeccomp(const ContainerBuild& build, model::SecuritySpec& out) {
  const auto& own = build.container.securitycontext();
  const auto& pods = build.pod.spec().securitycontext();
  const corev1::SeccompProfile* profile = own.has_seccompprofile()    ? &own.seccompprofile()
                                          : pods.has_seccompprofile() ? &pods.seccompprofile()
                                                                      : nullptr;
  if (out.privileged) {
    out.seccomp = model::SecuritySpec::Seccomp::kUnconfined;
  } else if (profile != nullptr) {
    out.seccomp = SeccompOf(profile->type());
    if (out.seccomp == model::SecuritySpec::Seccomp::kLocalhost) {
      out.seccomp_profile = StrCat(build.node.seccomp_dir, "/", profile->localhostprofile());
    }
  }
}

// Who is privileged, or names none where the node has none, is under none; who names one is under it or does not start.
// Source: containerd 2.4, internal/cri/server.
std::expected<void, StartFailure> FillAppArmor(const ContainerBuild& build,
                                               model::SecuritySpec& out) {
  const AppArmorOffer& node = build.node.app_armor;
  const auto named = kube::AppArmorProfileOf(build.pod, build.container);
  const std::string type = named ? named->type() : "";
  if (type == "Unconfined") return {};
  if (!node.enabled) {
    if (!named) return {};
    return std::unexpected(
        StartFailure{StartFailure::Phase::kCreate, Unsupported("apparmor is not supported")});
  }
  if (type == "Localhost") {
    out.app_armor_profile = named->localhostprofile();
    return {};
  }
  if (out.privileged) return {};
  if (node.profile.empty() && named) {
    return std::unexpected(StartFailure{
        StartFailure::Phase::kCreate,
        Unsupported(StrCat("apparmor has no profile of type RuntimeDefault: ", node.no_profile))});
  }
  out.app_armor_profile = node.profile;
  return {};
}

model::UserSpec UserOf(const ContainerBuild& build) {
  const auto& own = build.container.securitycontext();
  const auto& pods = build.pod.spec().securitycontext();
  model::UserSpec out;
  out.image_user = build.image.config.user;
  if (own.has_runasuser() || pods.has_runasuser()) {
    out.run_as_user = own.has_runasuser() ? own.runasuser() : pods.runasuser();
  }
  if (own.has_runasgroup() || pods.has_runasgroup()) {
    out.run_as_group = own.has_runasgroup() ? own.runasgroup() : pods.runasgroup();
  }
  out.run_as_non_root = own.has_runasnonroot() ? own.runasnonroot() : pods.runasnonroot();
  for (const int64_t group : pods.supplementalgroups()) out.supplemental_groups.push_back(group);
  if (pods.has_fsgroup()) out.supplemental_groups.push_back(pods.fsgroup());
  out.strict_groups = pods.supplementalgroupspolicy() == "Strict";
  return out;
}

// Only a number proves that the image's user is not root.
std::expected<void, StartFailure> CheckNonRoot(const ContainerBuild& build,
                                               const model::UserSpec& user) {
  if (!user.run_as_non_root) return {};
  if (user.run_as_user) {
    if (*user.run_as_user != 0) return {};
    return Refuse(StrCat("container's runAsUser breaks non-root policy ", Which(build)));
  }
  const std::string name = user.image_user.substr(0, user.image_user.find(':'));
  int64_t uid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), uid);
  const bool numeric = !name.empty() && error == std::errc() && end == name.data() + name.size();
  if (name.empty() || (numeric && uid == 0)) {
    return Refuse(StrCat("container has runAsNonRoot and image will run as root ", Which(build)));
  }
  if (!numeric) {
    return Refuse(StrCat("container has runAsNonRoot and image has non-numeric user (", name,
                         "), cannot verify user is non-root ", Which(build)));
  }
  return {};
}

}  // namespace

std::expected<void, StartFailure> FillSecurity(const ContainerBuild& build,
                                               model::ContainerSpec& spec) {
  const auto& own = build.container.securitycontext();
  spec.user = UserOf(build);
  if (auto ok = CheckNonRoot(build, spec.user); !ok) return ok;
  spec.security.privileged = own.privileged();
  spec.security.allow_privilege_escalation =
      own.privileged() || !own.has_allowprivilegeescalation() || own.allowprivilegeescalation();
  for (const std::string& name : own.capabilities().add()) {
    spec.security.add_capabilities.push_back(BareCapability(name));
  }
  for (const std::string& name : own.capabilities().drop()) {
    spec.security.drop_capabilities.push_back(BareCapability(name));
  }
  spec.security.unmasked_proc = own.procmount() == "Unmasked";
  FillSeccomp(build, spec.security);
  spec.security.selinux = SelinuxOptionsOf(build.pod, own);
  return FillAppArmor(build, spec.security);
}

}  // namespace holdfast::agent
