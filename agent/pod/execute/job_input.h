// SPDX-License-Identifier: Apache-2.0
// What an operation takes along of its pod, as that is when the operation begins. Pure.
#pragma once

#include <memory>
#include <string>

#include "agent/pod/decide/types.h"
#include "agent/pod/operate/hook.h"
#include "agent/pod/operate/pod_job.h"

namespace holdfast::agent {

// `allocated`: the pod with the amounts that it was given.
PodJobInput JobInputOf(const Action& action, std::shared_ptr<const corev1::Pod> allocated,
                       const PodMemory& memory);

// `host_ip`: of the node. A sleep goes on where it was when an agent was killed in it.
HookInput HookInputOf(const Action& action, std::shared_ptr<const corev1::Pod> pod,
                      const PodMemory& memory, const std::string& host_ip, WallTime now);

}  // namespace holdfast::agent
