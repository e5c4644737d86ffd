// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/job_input.h"

#include <algorithm>

#include "agent/pod/decide/spec_containers.h"

namespace holdfast::agent {
namespace {

void TakeForStart(const Action& action, const PodMemory& memory, PodJobInput& input) {
  const ContainerMemory& mine = memory.containers.at(action.container);
  input.pod_ips = memory.pod_ips;
  input.image_id = mine.launch->image_id;
  // The run before it stays for `logs --previous`.
  if (mine.before_last) input.before_last = mine.before_last->id;
  const auto target = memory.containers.find(ContainerNamed(*input.pod, action.container).target);
  if (target != memory.containers.end() && target->second.current) {
    input.target = target->second.current->id;
  }
}

}  // namespace

PodJobInput JobInputOf(const Action& action, std::shared_ptr<const corev1::Pod> allocated,
                       const PodMemory& memory) {
  PodJobInput input{std::move(allocated), action, {}, {}, {}};
  if (action.kind == Action::Kind::kStart) TakeForStart(action, memory, input);
  for (const auto& [name, mine] : memory.containers) {
    if (action.kind == Action::Kind::kEnsureSandbox) input.attempts[name] = mine.attempts;
    const bool resized = action.kind == Action::Kind::kResize && mine.current &&
                         !ContainerNamed(*input.pod, name).own;
    if (resized) input.running[name] = mine.current->id;
  }
  return input;
}

HookInput HookInputOf(const Action& action, std::shared_ptr<const corev1::Pod> pod,
                      const PodMemory& memory, const std::string& host_ip, WallTime now) {
  const ContainerMemory& mine = memory.containers.at(action.container);
  const bool stops = action.kind == Action::Kind::kPreStop;
  const WallTime since = stops ? mine.stop->begun : mine.current->started_at;
  const bool on_host = pod->spec().hostnetwork();
  const std::string pod_ip = memory.pod_ips.empty() ? "" : memory.pod_ips.front();
  HookInput input{std::move(pod), action, on_host ? host_ip : pod_ip};
  input.slept = std::max(now - since, std::chrono::nanoseconds(0));
  return input;
}

}  // namespace holdfast::agent
