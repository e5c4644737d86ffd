// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/container_spec_builder.h"

#include <utility>

#include "agent/kube/expansion.h"
#include "agent/objects/no_inputs.h"
#include "agent/pod/spec/environment.h"
#include "agent/pod/spec/files.h"
#include "agent/pod/spec/resources.h"
#include "agent/pod/spec/selinux.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using Variables = std::map<std::string, std::string>;

StartFailure Config(Error error) { return {StartFailure::Phase::kConfig, std::move(error)}; }

template <class List>
void AppendExpanded(const List& words, const Variables& variables, std::vector<std::string>& out) {
  for (const std::string& word : words) out.push_back(kube::Expand(word, variables));
}

// command replaces the entrypoint and makes the image's arguments void; args replace only those.
std::vector<std::string> ArgumentsOf(const ContainerBuild& build, const Variables& variables) {
  const auto& c = build.container;
  std::vector<std::string> argv;
  if (!c.command().empty()) {
    AppendExpanded(c.command(), variables, argv);
    AppendExpanded(c.args(), variables, argv);
    return argv;
  }
  argv = build.image.config.entrypoint;
  if (!c.args().empty()) {
    AppendExpanded(c.args(), variables, argv);
  } else {
    argv.insert(argv.end(), build.image.config.cmd.begin(), build.image.config.cmd.end());
  }
  return argv;
}

model::NamespaceSpec Namespaces(const corev1::PodSpec& spec) {
  using enum model::NamespaceMode;
  model::NamespaceSpec out;
  out.network = spec.hostnetwork() ? kHost : kPod;
  out.uts = spec.hostnetwork() ? kHost : kPod;
  out.ipc = spec.hostipc() ? kHost : kPod;
  out.pid = spec.hostpid() ? kHost : (spec.shareprocessnamespace() ? kPod : kContainer);
  return out;
}

model::LogSpec LogOf(const ContainerBuild& build) {
  model::LogSpec log;
  log.path = build.paths.LogFile(build.container.name(), build.attempt);
  log.max_size_bytes = build.node.log_max_size_bytes;
  log.max_files = build.node.log_max_files;
  return log;
}

}  // namespace

std::expected<model::ContainerSpec, StartFailure> BuildContainerSpec(const ContainerBuild& build) {
  const corev1::Pod& pod = build.pod;
  const corev1::Container& c = build.container;
  model::ContainerSpec spec;
  spec.id = build.id;
  spec.pod_uid = PodUid(pod.metadata().uid());
  spec.pod_namespace = pod.metadata().namespace_();
  spec.pod_name = pod.metadata().name();
  spec.name = c.name();
  spec.attempt = build.attempt;
  spec.root_fs.layers = build.image.layers;
  spec.root_fs.scratch = build.paths.Scratch(c.name(), build.attempt);
  spec.root_fs.read_only = c.securitycontext().readonlyrootfilesystem();

  const NoInputs none;
  auto environment = BuildEnvironment(pod, c, build.image.config.env, build.node, build.pod_ips,
                                      build.inputs == nullptr ? none : *build.inputs,
                                      {build.volumes, build.read_volume_text});
  if (!environment) return std::unexpected(Config(std::move(environment.error())));
  spec.env = std::move(environment->list);
  spec.argv = ArgumentsOf(build, environment->of_pod);
  if (spec.argv.empty()) {
    return std::unexpected(StartFailure{StartFailure::Phase::kCreate,
                                        InvalidArgument("no command specified: neither the pod nor "
                                                        "the image names one")});
  }
  spec.working_dir = c.workingdir().empty() ? build.image.config.working_dir : c.workingdir();
  spec.hostname = pod.spec().hostnetwork() ? build.node.node_name : PodHostname(pod, build.node);

  auto mounts = BuildMounts(build, environment->of_pod);
  if (!mounts) return std::unexpected(std::move(mounts.error()));
  spec.mounts = std::move(*mounts);
  auto devices = BuildDevices(build);
  if (!devices) return std::unexpected(std::move(devices.error()));
  spec.devices = std::move(*devices);
  if (auto ok = FillSecurity(build, spec); !ok) return std::unexpected(std::move(ok.error()));
  spec.namespaces = Namespaces(pod.spec());
  if (spec.namespaces.pid == model::NamespaceMode::kContainer && !build.target.empty()) {
    spec.namespaces.pid = model::NamespaceMode::kPod;
    spec.namespaces.pid_of = build.target;
  }
  spec.resources = ContainerResources(pod, c, build.node);
  spec.qos = kube::ComputeQosClass(pod.spec());
  spec.log = LogOf(build);
  spec.stdin_open = c.stdin();
  spec.stdin_once = c.stdinonce();
  spec.tty = c.tty();
  return spec;
}

model::SandboxSpec BuildSandboxSpec(const corev1::Pod& pod, const NodeEnvironment& node) {
  model::SandboxSpec out;
  const corev1::PodSpec& spec = pod.spec();
  out.uid = PodUid(pod.metadata().uid());
  out.pod_namespace = pod.metadata().namespace_();
  out.pod_name = pod.metadata().name();
  out.hostname = spec.hostnetwork() ? std::string() : PodHostname(pod, node);
  out.host_network = spec.hostnetwork();
  out.host_pid = spec.hostpid();
  out.host_ipc = spec.hostipc();
  out.host_users = !spec.has_hostusers() || spec.hostusers();
  out.share_process_namespace = spec.shareprocessnamespace();
  out.qos = kube::ComputeQosClass(spec);
  out.resources = PodResources(pod, node.memory);
  out.selinux = SelinuxOptionsOf(spec.securitycontext().selinuxoptions());
  for (const corev1::Sysctl& sysctl : spec.securitycontext().sysctls()) {
    out.sysctls[sysctl.name()] = sysctl.value();
  }
  return out;
}

std::vector<HostPort> HostPorts(const corev1::Pod& pod) {
  std::vector<HostPort> out;
  if (pod.spec().hostnetwork()) return out;  // the port is the node's own already
  for (const auto* list : {&pod.spec().initcontainers(), &pod.spec().containers()}) {
    for (const corev1::Container& c : *list) {
      for (const corev1::ContainerPort& port : c.ports()) {
        if (port.hostport() == 0) continue;
        HostPort entry;
        entry.host_ip = port.hostip();
        entry.host_port = static_cast<uint16_t>(port.hostport());
        entry.container_port = static_cast<uint16_t>(port.containerport());
        entry.protocol = port.protocol() == "UDP"    ? HostPort::Protocol::kUdp
                         : port.protocol() == "SCTP" ? HostPort::Protocol::kSctp
                                                     : HostPort::Protocol::kTcp;
        out.push_back(std::move(entry));
      }
    }
  }
  return out;
}

}  // namespace holdfast::agent
