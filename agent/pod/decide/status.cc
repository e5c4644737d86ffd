// SPDX-License-Identifier: Apache-2.0
// The pod's status as Kubernetes would show it, from memory and the waiting states of this
// decision.
#include <algorithm>
#include <utility>

#include "agent/kube/pod_resources.h"
#include "agent/kube/utf8.h"
#include "agent/pod/decide/planning.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// 12 KiB of termination messages for the whole pod.
constexpr size_t kPodMessageBytes = 12 * 1024;

void SetSeconds(metav1::Time* out, WallTime time) {
  out->set_seconds(std::chrono::floor<std::chrono::seconds>(time.since_epoch).count());
}

// Of a container whose end nobody saw there may be no times: they are null then, as a kubelet has it.
bool IsKnown(WallTime time) { return time != WallTime(); }

std::string FullId(const ContainerId& id) {
  return id.empty() ? std::string() : StrCat("holdfast://", id.value);
}

void FillTerminated(corev1::ContainerStateTerminated* out, const Finished& finished,
                    size_t message_limit) {
  out->set_exitcode(finished.exit_code);
  if (finished.signal != 0) out->set_signal(finished.signal);
  out->set_reason(finished.reason);
  if (!finished.message.empty()) out->set_message(kube::CutUtf8(finished.message, message_limit));
  if (IsKnown(finished.started_at)) SetSeconds(out->mutable_startedat(), finished.started_at);
  if (IsKnown(finished.finished_at)) SetSeconds(out->mutable_finishedat(), finished.finished_at);
  if (!finished.id.empty()) out->set_containerid(FullId(finished.id));
}

const Failure* WaitingState(const Planning& p, const SpecContainer& c,
                            const ContainerMemory& mine) {
  const auto it = p.waiting.find(c.name());
  if (it != p.waiting.end()) return &it->second;
  return mine.failure ? &*mine.failure : nullptr;
}

// Fills state and lastState.
void FillState(const Planning& p, const SpecContainer& c, const ContainerMemory& mine,
               size_t message_limit, corev1::ContainerStatus* out) {
  const Finished* before = mine.last ? &*mine.last : nullptr;
  corev1::ContainerState* state = out->mutable_state();
  if (Runs(c, mine)) {
    SetSeconds(state->mutable_running()->mutable_startedat(), mine.current->started_at);
  } else if (const Failure* waiting = WaitingState(p, c, mine)) {
    state->mutable_waiting()->set_reason(waiting->reason);
    if (!waiting->message.empty()) state->mutable_waiting()->set_message(waiting->message);
  } else if (mine.again && mine.last && mine.last->reason == kRestartingAll) {
    state->mutable_waiting()->set_reason(kRestartingAll);
    state->mutable_waiting()->set_message(kRestartingAllMessage);
  } else if (mine.last && !mine.current) {
    FillTerminated(state->mutable_terminated(), *mine.last, message_limit);
    before = mine.before_last ? &*mine.before_last : nullptr;
  } else {
    state->mutable_waiting()->set_reason(p.pod.spec().initcontainers().empty() ? "ContainerCreating"
                                                                               : "PodInitializing");
  }
  if (before != nullptr) {
    FillTerminated(out->mutable_laststate()->mutable_terminated(), *before, message_limit);
  } else {
    out->mutable_laststate();
  }
}

// The digest of an image that is mounted is told of a file's pod only: an API server without the gate
// ImageVolumeWithDigest (alpha in 1.36) takes it away again, and a kubelet without it says nothing.
void FillMountedImage(const Planning& p, const ContainerMemory& mine,
                      corev1::VolumeMountStatus* out) {
  if (IsReported(p) || !mine.launch) return;
  const auto image = mine.launch->volume_images.find(out->name());
  if (image == mine.launch->volume_images.end()) return;
  out->mutable_volumestatus()->mutable_image()->set_imageref(image->second);
}

void FillMounts(const Planning& p, const SpecContainer& c, const ContainerMemory& mine,
                corev1::ContainerStatus* out) {
  for (const corev1::VolumeMount& mount : c.spec->volumemounts()) {
    corev1::VolumeMountStatus* status = out->add_volumemounts();
    status->set_name(mount.name());
    status->set_mountpath(mount.mountpath());
    FillMountedImage(p, mine, status);
    if (!mount.readonly()) continue;
    // Every kernel that we run on can: "IfPossible" is "Enabled".
    const std::string& wish = mount.recursivereadonly();
    const bool recursive = wish == "Enabled" || wish == "IfPossible";
    status->set_readonly(true);
    status->set_recursivereadonly(recursive ? "Enabled" : "Disabled");
  }
}

void FillUser(const ContainerMemory& mine, corev1::ContainerStatus* out) {
  if (!mine.current || !mine.current->user) return;
  corev1::LinuxContainerUser* user = out->mutable_user()->mutable_linux();
  user->set_uid(mine.current->user->uid);
  user->set_gid(mine.current->user->gid);
  for (const int64_t group : mine.current->user->groups) user->add_supplementalgroups(group);
}

// What it was given; of cpu and memory what its cgroup has, while it runs.
void FillResources(const SpecContainer& c, const ContainerMemory& mine,
                   corev1::ContainerStatus* out) {
  const corev1::ResourceRequirements& given = c.spec->resources();
  if (!given.requests().empty()) *out->mutable_allocatedresources() = given.requests();
  if (!c.spec->has_resources()) return;
  *out->mutable_resources() = given;
  const Amounts* const has = AmountsIn(mine);
  if (has == nullptr) return;
  const auto show = [](const std::map<std::string, std::string>& amounts, auto* list) {
    if (list->empty()) return;
    for (const auto& [name, text] : amounts) (*list)[name].set_string(text);
  };
  show(has->requests, out->mutable_resources()->mutable_requests());
  show(has->limits, out->mutable_resources()->mutable_limits());
}

void FillContainer(const Planning& p, const SpecContainer& c, size_t message_limit,
                   corev1::ContainerStatus* out) {
  const ContainerMemory& mine = p.memory.containers[c.name()];
  out->set_name(c.name());
  FillState(p, c, mine, message_limit, out);
  out->set_ready(IsReady(c, mine));
  if (c.role != Role::kEphemeral) out->set_started(HasStarted(c, mine));
  out->set_restartcount(mine.attempts == 0 ? 0 : static_cast<int32_t>(mine.attempts - 1));
  out->set_image(mine.launch ? mine.launch->image : c.spec->image());
  out->set_imageid(mine.launch ? mine.launch->ShownImage() : "");
  const std::string id =
      mine.current ? FullId(mine.current->id) : (mine.last ? FullId(mine.last->id) : std::string());
  if (!id.empty()) out->set_containerid(id);
  FillResources(c, mine, out);
  FillMounts(p, c, mine, out);
  FillUser(mine, out);
  if (c.spec->lifecycle().has_stopsignal()) out->set_stopsignal(c.spec->lifecycle().stopsignal());
}

// Of the pod as a whole, as a kubelet of 1.36 tells it of every pod. Which amounts there are never changes: a patch could
// not take one away.
void FillPodResources(const Planning& p, corev1::PodStatus& status) {
  const kube::ResourceList requests = kube::PodRequests(p.pod.spec());
  for (const auto& [name, amount] : requests) {
    (*status.mutable_allocatedresources())[name].set_string(amount.ToString());
  }
  const Amounts has = p.memory.pod_amounts ? *p.memory.pod_amounts : PodAmounts(p.pod);
  if (!p.pod.spec().has_resources() && has == Amounts{}) return;
  corev1::ResourceRequirements* const shown = status.mutable_resources();
  *shown = p.pod.spec().resources();
  for (const auto& [name, text] : has.requests) {
    (*shown->mutable_requests())[name].set_string(text);
  }
  for (const auto& [name, text] : has.limits) (*shown->mutable_limits())[name].set_string(text);
}

void FillAddresses(const Planning& p, corev1::PodStatus& status) {
  const auto& host_ips = p.facts.node->host_ips;
  for (const std::string& ip : host_ips) status.add_hostips()->set_ip(ip);
  if (!host_ips.empty()) status.set_hostip(host_ips.front());
  const auto& pod_ips = p.pod.spec().hostnetwork() ? host_ips : p.memory.pod_ips;
  for (const std::string& ip : pod_ips) status.add_podips()->set_ip(ip);
  if (!pod_ips.empty()) status.set_podip(pod_ips.front());
}

struct Counts {
  int running = 0;
  int waiting = 0;
  int succeeded = 0;
  int failed = 0;
};

Counts CountMain(const Planning& p) {
  Counts counts;
  for (const SpecContainer& c : p.containers) {
    if (c.role != Role::kMain) continue;
    const ContainerMemory& mine = p.memory.containers[c.name()];
    if (Runs(c, mine)) {
      ++counts.running;
    } else if (!mine.last) {
      ++counts.waiting;
    } else {
      ++(mine.last->exit_code == 0 ? counts.succeeded : counts.failed);
    }
  }
  return counts;
}

bool InitHasFailed(const Planning& p) {
  return std::any_of(p.containers.begin(), p.containers.end(), [&](const SpecContainer& c) {
    const ContainerMemory& mine = p.memory.containers[c.name()];
    return c.role == Role::kInit && mine.last && mine.last->exit_code != 0;
  });
}

// A pod that never was the node's has no conditions and no containers, as with a kubelet.
bool IsRejected(const PodMemory& memory) {
  return memory.admission && !memory.admission->admitted();
}

corev1::ContainerStatus* AddStatusOf(const SpecContainer& c, corev1::PodStatus& status) {
  if (c.in_init_list()) return status.add_initcontainerstatuses();
  return c.role == Role::kMain ? status.add_containerstatuses()
                               : status.add_ephemeralcontainerstatuses();
}

}  // namespace

std::string ComputePhase(const Planning& p) {
  if (!p.memory.terminal_phase.empty()) return p.memory.terminal_phase;
  if (p.memory.ending && EndedElsewhere(p) && !AnythingRuns(p)) return p.pod.status().phase();
  const Counts main = CountMain(p);
  if (p.memory.ending && !AnythingRuns(p)) {
    if (!p.memory.terminal_reason.empty()) return "Failed";
    const bool all_succeeded = main.failed == 0 && main.waiting == 0 && main.running == 0;
    return all_succeeded && (p.memory.initialized || !InitHasFailed(p)) ? "Succeeded" : "Failed";
  }
  // A pod whose containers are restarted together does not become Pending again.
  const bool again = std::any_of(p.memory.containers.begin(), p.memory.containers.end(),
                                 [](const auto& entry) { return entry.second.again; });
  if (!again && (!p.memory.initialized || main.waiting > 0)) return "Pending";
  return "Running";
}

corev1::PodStatus ComputeStatus(Planning& p) {
  // Nobody here knows more of it than what stands there.
  if (EndedElsewhere(p) && NeverRan(p.memory)) return p.pod.status();
  corev1::PodStatus status;
  if (p.pod.metadata().generation() != 0) {
    status.set_observedgeneration(p.pod.metadata().generation());
  }
  status.set_phase(ComputePhase(p));
  const bool terminal = !p.memory.terminal_phase.empty();
  if (terminal && !p.memory.terminal_reason.empty()) {
    status.set_reason(p.memory.terminal_reason);
    status.set_message(p.memory.terminal_message);
  }
  SetSeconds(status.mutable_starttime(), p.memory.start_time);
  status.set_qosclass(std::string(kube::QosClassName(kube::ComputeQosClass(p.pod.spec()))));
  if (IsRejected(p.memory)) return status;
  FillAddresses(p, status);
  const size_t message_limit = kPodMessageBytes / std::max<size_t>(p.containers.size(), 3);
  for (const SpecContainer& c : p.containers) {
    FillContainer(p, c, message_limit, AddStatusOf(c, status));
  }
  FillPodResources(p, status);
  AddConditions(p, status);
  return status;
}

}  // namespace holdfast::agent
