// SPDX-License-Identifier: Apache-2.0
// decide(): what to do about one pod. A pure function of facts and memory: no I/O, no clock, no
// randomness; the same input gives the same decision.
#pragma once

#include <optional>

#include "agent/pod/decide/types.h"

namespace holdfast::agent {

// `memory` is what the last decision (and the records of the actions since) left.
// The caller persists Decision::memory, runs the actions in order, stopping at the first failed
// one, records their outcome in the memory (memory.h) and calls again until no action is left.
Decision Decide(const PodFacts& facts, PodMemory memory);

// Somebody else gave the pod a phase that it never leaves again: it was evicted, collected, or ended
// under an agent whose records are lost.
bool EndedElsewhere(PodOrigin origin, const corev1::Pod& pod);

// True when decide would look at the image of this container: the caller then fills in
// PodFacts::images for it.
bool NeedsImage(const PodMemory& memory, const std::string& container);

// A container that was stopped to be started again at once (another image, a failed liveness probe)
// is between two runs. As a kubelet, which stops and starts in one go and looks a second later, the
// node keeps that to itself unless it lasts: until then, if so.
std::optional<BootTime> BetweenRuns(const PodMemory& memory, WallTime wall, BootTime boot);

}  // namespace holdfast::agent
