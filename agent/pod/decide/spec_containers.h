// SPDX-License-Identifier: Apache-2.0
// The containers of a pod with the part they play, and what their restart policies say.
// Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/pod/decide/types.h"

namespace holdfast::agent {

enum class Role : uint8_t {
  kInit,     // runs to its end before the next one
  kSidecar,  // init container with restartPolicy Always: keeps running
  kMain,
  kEphemeral,  // put in later, to look at the others; runs once and holds nothing up
};

struct SpecContainer {
  const corev1::Container* spec = nullptr;
  Role role = Role::kMain;
  std::shared_ptr<const corev1::Container> own =
      {};                   // kEphemeral: what `spec` is; the pod has it as another type
  std::string target = {};  // kEphemeral: whose processes it is to see; "" nobody's
  const std::string& name() const { return spec->name(); }
  bool in_init_list() const { return role == Role::kInit || role == Role::kSidecar; }
};

// Init containers in order, then the main ones, then ephemeral ones.
std::vector<SpecContainer> ContainersOf(const corev1::Pod& pod);
// The one of that name; its `spec` is null when there is none.
SpecContainer ContainerNamed(const corev1::Pod& pod, const std::string& name);

// agent/kube/restart_policy.h, for a container with its part.
bool RestartsAfter(const corev1::Pod& pod, const SpecContainer& container, int32_t exit_code);
bool RestartsAllAfter(const SpecContainer& container, int32_t exit_code);
bool CouldRestartAll(const corev1::Pod& pod);

// The pod's own grace period for a stop that nobody gave one for.
std::chrono::seconds GracePeriod(const corev1::Pod& pod);

// "<namespace>/<name>"
std::string FullName(const corev1::Pod& pod);
// "<name>_<namespace>(<uid>)", as Kubernetes names a pod in messages.
std::string PodLabel(const corev1::Pod& pod);

// The number of "SIGTERM", "TERM", "15", "SIGRTMIN+3"; 0 when it is none of them.
int SignalNumber(const std::string& name);

}  // namespace holdfast::agent
