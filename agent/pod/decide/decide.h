// SPDX-License-Identifier: Apache-2.0
// decide(): what to do about one pod. A pure function of facts and memory: no I/O, no clock, no
// randomness; the same input gives the same decision.
#pragma once

#include "agent/pod/decide/types.h"

namespace holdfast::agent {

// `memory` is what the last decision (and the records of the actions since) left.
// The caller persists Decision::memory, runs the actions in order, stopping at the first failed
// one, records their outcome in the memory (memory.h) and calls again until no action is left.
Decision Decide(const PodFacts& facts, PodMemory memory);

// True when decide would look at the image of this container: the caller then fills in
// PodFacts::images for it.
bool NeedsImage(const PodMemory& memory, const std::string& container);

}  // namespace holdfast::agent
