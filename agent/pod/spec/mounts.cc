// SPDX-License-Identifier: Apache-2.0
// Volume mounts, block devices, and the files that the node manages in every container.
#include <algorithm>
#include <utility>

#include "agent/kube/expansion.h"
#include "agent/pod/spec/container_spec_builder.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

StartFailure Config(std::string text) {
  return {StartFailure::Phase::kConfig, InvalidArgument(std::move(text))};
}

model::MountPropagation Propagation(const std::string& name) {
  if (name == "HostToContainer") return model::MountPropagation::kHostToContainer;
  if (name == "Bidirectional") return model::MountPropagation::kBidirectional;
  return model::MountPropagation::kPrivate;
}

std::string CleanPath(const std::string& path) {
  std::string out;
  for (size_t i = 0; i < path.size();) {
    while (i < path.size() && path[i] == '/') ++i;
    const size_t end = std::min(path.find('/', i), path.size());
    const std::string part = path.substr(i, end - i);
    if (!part.empty() && part != ".") out += "/" + part;
    i = end;
  }
  return out.empty() ? "/" : out;
}

std::expected<model::MountSpec, StartFailure> VolumeMount(
    const ContainerBuild& build, const corev1::VolumeMount& wish,
    const std::map<std::string, std::string>& variables) {
  const auto volume = build.volumes.find(wish.name());
  if (volume == build.volumes.end()) {
    return std::unexpected(
        Config(StrCat("cannot find volume \"", wish.name(), "\" to mount into container \"",
                      build.container.name(), "\"")));
  }
  model::MountSpec mount;
  mount.source = volume->second.path;
  mount.source_root = volume->second.root;
  mount.relabel = volume->second.relabel;
  mount.sub_path = wish.subpath();
  if (!wish.subpathexpr().empty()) {
    bool unknown = false;
    mount.sub_path = kube::Expand(wish.subpathexpr(), variables, &unknown);
    if (unknown) {
      return std::unexpected(Config(StrCat("failed to expand subPathExpr \"", wish.subpathexpr(),
                                           "\" of volume mount \"", wish.name(), "\"")));
    }
  }
  if (mount.sub_path.starts_with('/')) {
    return std::unexpected(
        Config(StrCat("subPath must not be an absolute path: ", mount.sub_path)));
  }
  if (StrCat("/", mount.sub_path, "/").find("/../") != std::string::npos) {
    return std::unexpected(Config(StrCat("subPath must not contain '..': ", mount.sub_path)));
  }
  mount.destination = CleanPath(wish.mountpath());
  mount.read_only = wish.readonly() || volume->second.read_only;
  mount.recursive_read_only = wish.readonly() && (wish.recursivereadonly() == "Enabled" ||
                                                  wish.recursivereadonly() == "IfPossible");
  mount.propagation = Propagation(wish.mountpropagation());
  return mount;
}

model::MountSpec ManagedFile(const std::string& source, const std::string& destination,
                             bool read_only) {
  model::MountSpec mount;
  mount.kind = model::MountSpec::Kind::kGenerated;
  mount.source = source;
  mount.destination = destination;
  mount.read_only = read_only;
  return mount;
}

}  // namespace

std::expected<std::vector<model::DeviceSpec>, StartFailure> BuildDevices(
    const ContainerBuild& build) {
  std::vector<model::DeviceSpec> devices;
  for (const corev1::VolumeDevice& wish : build.container.volumedevices()) {
    if (!wish.devicepath().starts_with('/')) {
      return std::unexpected(
          Config(StrCat("error DevicePath `", wish.devicepath(), "` must be an absolute path")));
    }
    const auto volume = build.devices.find(wish.name());
    if (volume == build.devices.end()) {
      return std::unexpected(
          Config(StrCat("cannot find volume \"", wish.name(), "\" to pass into container \"",
                        build.container.name(), "\"")));
    }
    devices.push_back(
        {volume->second.device, CleanPath(wish.devicepath()), volume->second.read_only});
  }
  return devices;
}

std::expected<std::vector<model::MountSpec>, StartFailure> BuildMounts(
    const ContainerBuild& build, const std::map<std::string, std::string>& variables) {
  std::vector<model::MountSpec> mounts;
  for (const corev1::VolumeMount& wish : build.container.volumemounts()) {
    auto mount = VolumeMount(build, wish, variables);
    if (!mount) return std::unexpected(std::move(mount.error()));
    mounts.push_back(std::move(*mount));
  }
  const bool read_only = build.container.securitycontext().readonlyrootfilesystem();
  const auto add_unless_mounted = [&](const std::string& source, const std::string& destination,
                                      bool file_read_only) {
    const bool taken = std::any_of(mounts.begin(), mounts.end(),
                                   [&](const auto& m) { return m.destination == destination; });
    if (!taken) mounts.push_back(ManagedFile(source, destination, file_read_only));
  };
  add_unless_mounted(build.paths.Hosts(), "/etc/hosts", false);
  add_unless_mounted(build.paths.ResolvConf(), "/etc/resolv.conf", read_only);
  if (!build.pod.spec().hostnetwork()) {
    add_unless_mounted(build.paths.Hostname(), "/etc/hostname", read_only);
  }
  const std::string& termination = build.container.terminationmessagepath();
  if (!termination.empty()) {
    add_unless_mounted(build.paths.TerminationLog(build.container.name(), build.attempt),
                       CleanPath(termination), false);
  }
  for (const auto& [place, directory] : build.image_volumes) {
    add_unless_mounted(directory, place, false);
  }
  // A mount on a parent directory must come before the ones below it.
  std::stable_sort(mounts.begin(), mounts.end(), [](const auto& a, const auto& b) {
    const auto depth = [](const std::string& path) {
      return path == "/" ? 0 : std::count(path.begin(), path.end(), '/');
    };
    return depth(a.destination) < depth(b.destination);
  });
  return mounts;
}

}  // namespace holdfast::agent
