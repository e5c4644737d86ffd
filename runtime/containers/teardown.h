// SPDX-License-Identifier: Apache-2.0
// Taking a container away: after its end, after a start that failed, after a crash in between.
// Thread-safe (state only in Parts); the caller holds the pod's lock.
#pragma once

#include "runtime/containers/parts.h"

namespace holdfast::runtime {

// Undoes what a container may have done to its pod's v1 freezer, so that SIGKILL is obeyed.
Result<void> ThawPod(Parts& parts, const ContainerBrief& brief);

// Ends what still runs of it (SIGKILL), then removes cgroup, scratch directory, log registration,
// the keeper's records and our record, in this order: cut short at any point, the next call
// finishes. Log files stay. What is gone already is success.
Result<void> TearDown(Parts& parts, const ContainerId& id, const ContainerBrief& brief);

// True when this container can never start any more, although a launch of it may be on its way:
// its cgroup is gone, and a launch into a removed cgroup fails. False when a process is in it.
Result<bool> FenceLaunch(Parts& parts, const ContainerId& id, const ContainerBrief& brief);

}  // namespace holdfast::runtime
