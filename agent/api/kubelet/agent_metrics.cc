// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/agent_metrics.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>

#include <cstdint>
#include <map>

#include "agent/kube/pod_resources.h"
#include "agent/kube/pod_status.h"
#include "agent/stats/machine_stats.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent::api {
namespace {

constexpr size_t kMostBytes = 64u << 10;

double ToDouble(uint64_t number) { return static_cast<double>(number); }

// As a kubelet counts containers.
const char* StateOf(const k8s::io::api::core::v1::ContainerStatus& status) {
  if (status.state().has_running()) return "running";
  if (status.state().has_terminated() || status.laststate().has_terminated()) return "exited";
  return nullptr;  // there is none yet
}

struct PodCounts {
  uint64_t running = 0, active = 0, from_files = 0, from_server = 0, ephemeral = 0;
  std::map<std::string, uint64_t> containers;
  std::map<std::string, uint64_t> pending_resizes;  // by reason
  uint64_t resizes_in_progress = 0;
};

PodCounts Count(const std::vector<PodPtr>& pods) {
  PodCounts out;
  for (const PodPtr& pod : pods) {
    const std::string& phase = pod->status().phase();
    const bool over = kube::IsTerminalPhase(phase);
    bool runs = false;
    for (const auto* statuses :
         {&pod->status().initcontainerstatuses(), &pod->status().containerstatuses(),
          &pod->status().ephemeralcontainerstatuses()}) {
      for (const auto& status : *statuses) {
        const char* const state = StateOf(status);
        if (state != nullptr) ++out.containers[state];
        runs = runs || status.state().has_running();
      }
    }
    for (const auto& condition : pod->status().conditions()) {
      if (condition.type() == "PodResizePending") {
        ++out.pending_resizes[ToLower(condition.reason())];
      }
      if (condition.type() == "PodResizeInProgress") ++out.resizes_in_progress;
    }
    out.running += runs ? 1 : 0;
    out.active += over ? 0 : 1;
    out.ephemeral += static_cast<uint64_t>(pod->spec().ephemeralcontainers_size());
    ++(kube::IsStaticPod(*pod) ? out.from_files : out.from_server);
  }
  return out;
}

void AddPods(const PodCounts& counts, MetricsText& text) {
  text.Begin("kubelet_active_pods",
             "[ALPHA] The number of pods the kubelet considers active and which are being "
             "considered when admitting new pods.",
             "gauge");
  text.Add(ToDouble(counts.active));
  text.Begin("kubelet_desired_pods",
             "[ALPHA] The number of pods the kubelet is being instructed to run.", "gauge");
  text.Add(ToDouble(counts.from_server), {{"static", ""}});
  text.Add(ToDouble(counts.from_files), {{"static", "true"}});
  text.Begin("kubelet_managed_ephemeral_containers",
             "[ALPHA] Current number of ephemeral containers in pods managed by this kubelet.",
             "gauge");
  text.Add(ToDouble(counts.ephemeral));
  text.Begin("kubelet_pod_in_progress_resizes", "[ALPHA] Number of in-progress resizes for pods.",
             "gauge");
  text.Add(ToDouble(counts.resizes_in_progress));
  if (!counts.pending_resizes.empty()) {
    text.Begin("kubelet_pod_pending_resizes", "[ALPHA] Number of pending resizes for pods.",
               "gauge");
  }
  for (const auto& [reason, count] : counts.pending_resizes) {
    text.Add(ToDouble(count), {{"reason", reason}});
  }
  text.Begin("kubelet_running_containers", "[ALPHA] Number of containers currently running",
             "gauge");
  for (const auto& [state, count] : counts.containers) {
    text.Add(ToDouble(count), {{"container_state", state}});
  }
  text.Begin("kubelet_running_pods", "[ALPHA] Number of pods that have a running pod sandbox",
             "gauge");
  text.Add(ToDouble(counts.running));
}

void AddProcess(MetricsText& text) {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  text.Begin("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
             "counter");
  text.Add(static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  text.Begin("process_max_fds", "Maximum number of open file descriptors.", "gauge");
  text.Add(ToDouble(files.rlim_cur));
  if (const auto open = sys::ListDirAt(AT_FDCWD, "/proc/self/fd")) {
    text.Begin("process_open_fds", "Number of open file descriptors.", "gauge");
    text.Add(ToDouble(open->size()));
  }
  if (const auto status = sys::ReadFileAt(AT_FDCWD, "/proc/self/status", kMostBytes)) {
    text.Begin("process_resident_memory_bytes", "Resident memory size in bytes.", "gauge");
    text.Add(ToDouble(MeminfoBytes(*status, "VmRSS:")));
    text.Begin("process_virtual_memory_bytes", "Virtual memory size in bytes.", "gauge");
    text.Add(ToDouble(MeminfoBytes(*status, "VmSize:")));
  }
}

}  // namespace

void AddAgentMetrics(const std::vector<PodPtr>& pods, const AgentFacts& facts, MetricsText& text) {
  const PodCounts counts = Count(pods);
  text.Begin("kubelet_cgroup_version", "[ALPHA] cgroup version on the hosts.", "gauge");
  text.Add(facts.cgroup_version);
  text.Begin(
      "kubelet_image_garbage_collected_total",
      "[ALPHA] Total number of images garbage collected by the kubelet, whether through disk "
      "usage or image age.",
      "counter");
  text.Add(ToDouble(facts.images_by_age), {{"reason", "age"}});
  text.Add(ToDouble(facts.images_by_space), {{"reason", "space"}});
  text.Begin("kubelet_node_name", "[ALPHA] The node's name. The count is always 1.", "gauge");
  text.Add(1, {{"node", facts.node_name}});
  AddPods(counts, text);
  text.Begin("kubernetes_build_info",
             "[ALPHA] A metric with a constant '1' value labeled by major, minor, git version.",
             "gauge");
  text.Add(1, {{"git_version", StrCat("v1.36.3+holdfast.", facts.version)},
               {"major", "1"},
               {"minor", "36"}});
  AddProcess(text);
}

}  // namespace holdfast::agent::api
