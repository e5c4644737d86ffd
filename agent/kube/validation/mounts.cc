// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/container.pb.h"
#include "k8s/core/v1/volume.pb.h"

namespace holdfast::agent::kube {
namespace {

bool HasBackstep(std::string_view path) {
  while (true) {
    const size_t slash = path.find('/');
    if (path.substr(0, slash) == "..") return true;
    if (slash == std::string_view::npos) return false;
    path.remove_prefix(slash + 1);
  }
}

void CheckRecursiveReadOnly(const corev1::VolumeMount& mount, const std::string& path,
                            Report* report) {
  const std::string& value = mount.recursivereadonly();
  if (!mount.has_recursivereadonly() || value == "Disabled") return;
  if (value != "Enabled" && value != "IfPossible") {
    return report->NotSupported(path, value, {"Disabled", "Enabled", "IfPossible"});
  }
  if (!mount.readonly()) report->Forbidden(path, "may only be specified when readOnly is true");
  if (mount.has_mountpropagation() && mount.mountpropagation() != "None") {
    report->Forbidden(path, "may only be specified when mountPropagation is None or not specified");
  }
}

void CheckMount(const corev1::VolumeMount& mount, const corev1::Container& container,
                const PodContext& pod, const std::string& path, Report* report) {
  if (mount.name().empty()) report->Required(Child(path, "name"));
  if (!pod.volumes.contains(mount.name())) report->NotFound(Child(path, "name"), mount.name());
  if (mount.mountpath().empty()) report->Required(Child(path, "mountPath"));
  if (!mount.subpath().empty()) {
    CheckRelativePath(mount.subpath(), Child(path, "subPath"), report);
  }
  if (!mount.subpathexpr().empty()) {
    if (!mount.subpath().empty()) {
      report->Invalid(Child(path, "subPathExpr"), mount.subpathexpr(),
                      "subPathExpr and subPath are mutually exclusive");
    }
    CheckRelativePath(mount.subpathexpr(), Child(path, "subPathExpr"), report);
  }
  if (mount.has_mountpropagation()) {
    const std::string here = Child(path, "mountPropagation");
    const bool known = report->OneOfShown(here, mount.mountpropagation(),
                                          {"Bidirectional", "HostToContainer", "None"});
    if (known && mount.mountpropagation() == "Bidirectional" &&
        !container.securitycontext().privileged()) {
      report->Forbidden(
          here, "Bidirectional mount propagation is available only to privileged containers");
    }
  }
  CheckRecursiveReadOnly(mount, Child(path, "recursiveReadOnly"), report);
}

void CheckDevices(const corev1::Container& container, const PodContext& pod,
                  const std::string& path, Report* report) {
  std::set<std::string> names;
  std::set<std::string> paths;
  std::set<std::string> mounts;
  std::set<std::string> mount_paths;
  for (const corev1::VolumeMount& mount : container.volumemounts()) {
    mounts.insert(mount.name());
    mount_paths.insert(mount.mountpath());
  }
  for (int i = 0; i < container.volumedevices_size(); ++i) {
    const corev1::VolumeDevice& device = container.volumedevices(i);
    const std::string here = Index(path, i);
    const auto volume = pod.volumes.find(device.name());
    if (device.name().empty()) report->Required(Child(here, "name"));
    if (!device.name().empty() && !names.insert(device.name()).second) {
      report->Invalid(Child(here, "name"), device.name(), "must be unique");
    }
    if (volume == pod.volumes.end()) {
      report->NotFound(Child(here, "name"), device.name());
    } else if (!volume->second->has_persistentvolumeclaim() && !volume->second->has_ephemeral()) {
      report->Invalid(Child(here, "name"), device.name(),
                      "can only use volume source type of PersistentVolumeClaim or Ephemeral for "
                      "block mode");
    }
    if (device.devicepath().empty()) report->Required(Child(here, "devicePath"));
    if (HasBackstep(device.devicepath())) {
      report->Invalid(Child(here, "devicePath"), device.devicepath(),
                      "can not contain backsteps ('..')");
    } else if (!paths.insert(device.devicepath()).second) {
      report->Invalid(Child(here, "devicePath"), device.devicepath(), "must be unique");
    }
    if (mounts.contains(device.name())) {
      report->Invalid(Child(here, "name"), device.name(), "must not already exist in volumeMounts");
    }
    if (mount_paths.contains(device.devicepath())) {
      report->Invalid(Child(here, "devicePath"), device.devicepath(),
                      "must not already exist as a path in volumeMounts");
    }
  }
}

}  // namespace

void CheckNoBacksteps(std::string_view value, const std::string& path, Report* report) {
  if (HasBackstep(value)) report->Invalid(path, value, "must not contain '..'");
}

void CheckRelativePath(std::string_view value, const std::string& path, Report* report) {
  if (value.starts_with('/')) report->Invalid(path, value, "must be a relative path");
  CheckNoBacksteps(value, path, report);
}

void CheckFilePath(std::string_view value, const std::string& path, Report* report) {
  CheckRelativePath(value, path, report);
  if (value.starts_with("..") && !value.starts_with("../")) {
    report->Invalid(path, value, "must not start with '..'");
  }
}

void CheckMounts(const corev1::Container& container, const PodContext& pod, const std::string& path,
                 Report* report) {
  std::map<std::string, std::string> devices;  // name -> path
  std::set<std::string> device_paths;
  for (const corev1::VolumeDevice& device : container.volumedevices()) {
    devices[device.name()] = device.devicepath();
    device_paths.insert(device.devicepath());
  }
  std::set<std::string> paths;
  for (int i = 0; i < container.volumemounts_size(); ++i) {
    const corev1::VolumeMount& mount = container.volumemounts(i);
    const std::string here = Index(Child(path, "volumeMounts"), i);
    CheckMount(mount, container, pod, here, report);
    if (!paths.insert(mount.mountpath()).second) {
      report->Invalid(Child(here, "mountPath"), mount.mountpath(), "must be unique");
    }
    if (devices.contains(mount.name())) {
      report->Invalid(Child(here, "name"), mount.name(), "must not already exist in volumeDevices");
    }
    if (device_paths.contains(mount.mountpath())) {
      report->Invalid(Child(here, "mountPath"), mount.mountpath(),
                      "must not already exist as a path in volumeDevices");
    }
  }
  CheckDevices(container, pod, Child(path, "volumeDevices"), report);
}

}  // namespace holdfast::agent::kube
