// SPDX-License-Identifier: Apache-2.0
// PodWorker, second part: carrying out the actions on sandbox, volumes and the pod as a whole.
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "agent/pod/decide/memory.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/execute/pod_worker.h"
#include "agent/pod/spec/container_spec_builder.h"
#include "agent/pod/spec/files.h"
#include "agent/volume/pod_files.h"
#include "agent/volume/volumes.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/tree.h"

namespace holdfast::agent {

bool PodWorker::Execute(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kEnsureVolumes:
      return EnsurePodVolumes();
    case Action::Kind::kEnsureSandbox:
      return EnsurePodSandbox();
    case Action::Kind::kStart:
      StartContainer(action);
      return true;  // one container's failure does not hold up the others
    case Action::Kind::kSignal: {
      const auto done = services_.runtime.Signal(action.id, action.signal);
      HOLDFAST_PAUSE_POINT("agent.pod.signalled");
      if (done)
        RecordSignalled(memory_, action.container, services_.clock.Wall(), services_.clock.Boot());
      return Finish(action, done, "FailedKillPod");
    }
    case Action::Kind::kKill: {
      const auto done = services_.runtime.Kill(action.id);
      HOLDFAST_PAUSE_POINT("agent.pod.killed");
      if (done) RecordKilled(memory_, action.container, services_.clock.Boot());
      return Finish(action, done, "FailedKillPod");
    }
    case Action::Kind::kRemove:
      return Finish(action, RemoveContainer(action), "FailedKillPod");
    case Action::Kind::kRemoveSandbox:
      return Finish(action, RemovePodSandbox(), "FailedKillPod");
    case Action::Kind::kCleanUp: {
      const auto done = CleanUp();
      gone_ = done.has_value();
      return Finish(action, done, "FailedKillPod");
    }
  }
  return true;
}

bool PodWorker::Finish(const Action& action, const Result<void>& result, const char* event_reason) {
  if (result) return true;
  const std::string text = StrCat(ToString(action), ": ", result.error().message());
  services_.log(StrCat("pod ", PodLabel(*pod_), ": ", text, ", trying again in 10 s"));
  Publish(EventNote{true, event_reason, StrCat("error killing pod: ", text), "", false});
  return false;
}

bool PodWorker::EnsurePodVolumes() {
  if (auto done = EnsureVolumes(*pod_, paths_, services_.node()->memory_allocatable_bytes); !done) {
    const std::string& text = done.error().message();
    RecordPodFailure(memory_, "FailedMount", text, services_.clock.Boot());
    Publish(EventNote{true, "FailedMount", text, "", false});
    return false;
  }
  HOLDFAST_PAUSE_POINT("agent.pod.volumes_ready");
  volumes_ready_ = true;
  return true;
}

bool PodWorker::EnsurePodSandbox() {
  auto ips = MakeSandbox();
  if (!ips) {
    const std::string text = StrCat("Failed to create pod sandbox: ", ips.error().message());
    RecordPodFailure(memory_, "FailedCreatePodSandBox", text, services_.clock.Boot());
    Publish(EventNote{true, "FailedCreatePodSandBox", text, "", false});
    services_.log(StrCat("pod ", PodLabel(*pod_), ": ", text));
    return false;
  }
  RecordSandbox(memory_, std::move(*ips));
  // Now, and not with the next decision: no container runs without the record of its addresses.
  if (auto saved = Persist(); !saved) {
    services_.log(StrCat("pod ", PodLabel(*pod_), ": ", saved.error().message()));
    return false;
  }
  return true;
}

// 1. namespaces and cgroup; 2. links and addresses; 3. the files that depend on the addresses.
Result<std::vector<std::string>> PodWorker::MakeSandbox() {
  RETURN_IF_ERROR(CheckRuntimeClass(*pod_));
  const auto node = services_.node();
  const model::SandboxSpec spec = BuildSandboxSpec(*pod_, *node);
  RETURN_IF_ERROR(services_.runtime.EnsureSandbox(spec));
  HOLDFAST_PAUSE_POINT("agent.pod.sandbox_made");
  std::vector<std::string> ips;
  if (!spec.host_network) {
    ASSIGN_OR_RETURN(const NsFd netns, services_.runtime.NetworkNamespace(spec.uid));
    PodNetworkRequest request;
    request.uid = spec.uid;
    request.pod_namespace = spec.pod_namespace;
    request.pod_name = spec.pod_name;
    request.network_namespace = netns.get();
    request.host_ports = HostPorts(*pod_);
    ASSIGN_OR_RETURN(ips, services_.network.Setup(request));
    HOLDFAST_PAUSE_POINT("agent.pod.network_made");
  }
  RETURN_IF_ERROR(WriteManagedFiles(ips));
  HOLDFAST_PAUSE_POINT("agent.pod.files_written");
  return ips;
}

Result<void> PodWorker::WriteManagedFiles(const std::vector<std::string>& pod_ips) {
  const auto node = services_.node();
  RETURN_IF_ERROR(EnsurePodFiles(paths_));
  ASSIGN_OR_RETURN(DirFd dir, sys::OpenDir(paths_.Files()));
  const ResolvConf resolv_conf = ResolvConfFile(*pod_, *node);
  if (!resolv_conf.warning_reason.empty()) {
    Publish(EventNote{true, resolv_conf.warning_reason, resolv_conf.warning_message, "", false});
  }
  const auto write = [&](const char* name, const std::string& text) {
    return sys::WriteFileAtomicAt(dir.get(), name, text, 0644, false);
  };
  RETURN_IF_ERROR(write("resolv.conf", resolv_conf.text));
  RETURN_IF_ERROR(write("hostname", PodHostname(*pod_, *node) + "\n"));
  // The last: where it is, all are.
  return write("etc-hosts", HostsFile(*pod_, *node, pod_ips));
}

// The namespaces go first: the address is free only when the host side is seen gone.
Result<void> PodWorker::RemovePodSandbox() {
  const PodUid uid(pod_->metadata().uid());
  RETURN_IF_ERROR(services_.runtime.RemoveSandbox(uid));
  HOLDFAST_PAUSE_POINT("agent.pod.sandbox_removed");
  RETURN_IF_ERROR(services_.network.Teardown(uid));
  HOLDFAST_PAUSE_POINT("agent.pod.network_removed");
  return {};
}

Result<void> PodWorker::CleanUp() {
  RETURN_IF_ERROR(ReleaseVolumes(*pod_, paths_));
  RETURN_IF_ERROR(ReleasePodFiles(paths_.Files()));
  auto links = sys::OpenDir(services_.instance.container_log_dir);
  if (links) {
    const std::string prefix = paths_.LogLinkPrefix();
    ASSIGN_OR_RETURN(const auto names,
                     sys::ListDirAt(AT_FDCWD, services_.instance.container_log_dir));
    for (const std::string& name : names) {
      if (!name.starts_with(prefix)) continue;
      std::string target(4096, '\0');
      const ssize_t n = ::readlinkat(links->get(), name.c_str(), target.data(), target.size());
      target.resize(n > 0 ? static_cast<size_t>(n) : 0);
      if (target.starts_with(paths_.LogDir() + "/")) {
        RETURN_IF_ERROR(sys::RemoveFileAt(links->get(), name));
      }
    }
  }
  HOLDFAST_PAUSE_POINT("agent.pod.log_links_removed");
  RETURN_IF_ERROR(RemoveTree(paths_.LogDir(), services_.instance.LogAsideDir()));
  HOLDFAST_PAUSE_POINT("agent.pod.logs_removed");
  ASSIGN_OR_RETURN(const std::vector<std::string> left, services_.state.Remove(*pod_));
  for (const std::string& text : left) TellSetAside(text);
  return {};
}

Result<void> PodWorker::RemoveTree(const std::string& path, const std::string& aside) {
  ASSIGN_OR_RETURN(const std::string left, sys::RemoveOrSetAside(AT_FDCWD, path, aside));
  if (!left.empty()) TellSetAside(left);
  return {};
}

void PodWorker::TellSetAside(const std::string& text) {
  services_.log(StrCat("pod ", PodLabel(*pod_), ": ", text));
}

}  // namespace holdfast::agent
