// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/selinux.h"

#include <algorithm>
#include <set>

#include "agent/kube/containers_of.h"
#include "holdfast/base/strings.h"
#include "runtime/plan/selinux.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;

bool CanBeMountedWithLabel(const corev1::Pod& pod, const PersistentVolume& volume) {
  const auto& modes = volume.spec.accessmodes();
  return volume.csi.takes_selinux_label && !volume.csi.ephemeral && !IsBlock(volume) &&
         modes.size() == 1 && modes[0] == "ReadWriteOncePod" &&
         pod.spec().securitycontext().selinuxchangepolicy() != "Recursive";
}

bool Mounts(const auto& container, const std::string& volume) {
  return std::ranges::any_of(container.volumemounts(),
                             [&](const auto& mount) { return mount.name() == volume; });
}

}  // namespace

model::SelinuxOptions SelinuxOptionsOf(const corev1::SELinuxOptions& options) {
  return {options.user(), options.role(), options.type(), options.level()};
}

model::SelinuxOptions SelinuxOptionsOf(const corev1::Pod& pod,
                                       const corev1::SecurityContext& container) {
  const auto& pods = pod.spec().securitycontext();
  return SelinuxOptionsOf(container.has_selinuxoptions() ? container.selinuxoptions()
                                                         : pods.selinuxoptions());
}

Result<void> MountWithLabel(const corev1::Pod& pod, const std::string& name,
                            const std::optional<model::SelinuxContexts>& node,
                            PersistentVolume& volume) {
  if (!node || !CanBeMountedWithLabel(pod, volume)) return {};
  std::set<std::string> labels;
  std::optional<Error> wrong;
  bool has_levels = true;
  kube::ForEachContainer(pod.spec(), [&](kube::ContainerList /*list*/, const auto& container) {
    if (!Mounts(container, name)) return;
    const model::SelinuxOptions options = SelinuxOptionsOf(pod, container.securitycontext());
    if (options == model::SelinuxOptions()) return;
    if (options.level.empty()) {
      // The pod's own level is chosen with its sandbox, and not known here.
      has_levels = false;
      return;
    }
    auto compiled = runtime::CompileSelinuxLabels(*node, options, "", false);
    if (!compiled && !wrong) wrong = std::move(compiled.error());
    if (compiled) labels.insert(compiled->mount);
  });
  if (wrong) return std::move(*wrong);
  if (labels.size() > 1) {
    return InvalidArgument(StrCat("multiple SELinux labels found: ", Join(labels, ",")));
  }
  if (labels.empty() || !has_levels) return {};
  *volume.spec.add_mountoptions() = StrCat("context=\"", *labels.begin(), "\"");
  return {};
}

}  // namespace holdfast::agent
