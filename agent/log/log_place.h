// SPDX-License-Identifier: Apache-2.0
// Which log of a pod is meant, where it lies, and whether more will be written to it. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "agent/kube/types_fwd.h"
#include "holdfast/base/result.h"
#include "holdfast/model/instance.h"

namespace holdfast::agent {

// Which run's log is meant. kUnavailable: waiting to start; kNotFound: no previous run.
Result<uint32_t> LogAttempt(const corev1::Pod& pod, const std::string& container, bool previous);

// Of the container, below the pod log directory (agent/pod/state/paths.h).
std::string LogDirectory(const model::Instance& instance, const corev1::Pod& pod,
                         const std::string& container);

// True when that run of the container is not its present one any more, or has ended.
bool RunHasEnded(const corev1::Pod& pod, const std::string& container, uint32_t attempt);

// True when this container's present or last run is its last: the pod is over, or the container has
// ended and its restart policies (agent/kube/restart_policy.h) let it be.
bool RunsNoMore(const corev1::Pod& pod, const std::string& container);

}  // namespace holdfast::agent
