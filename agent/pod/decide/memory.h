// SPDX-License-Identifier: Apache-2.0
// Changes of a pod's memory by what was observed and by what our own actions led to. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "agent/pod/decide/types.h"

namespace holdfast::agent {

// Folds the observed containers in: running ones become `current` (adoption), exits become `last`,
// and a current container that is not there any more ended as ContainerStatusUnknown.
void Absorb(const PodFacts& facts, PodMemory& memory);

// What the status tells of who a container runs as, as far as that is known.
std::optional<UserIds> UserIdsOf(const std::optional<EffectiveUser>& user);

// After a successful start.
void RecordStarted(PodMemory& memory, const std::string& container, uint32_t attempt,
                   const StartedContainer& started, std::chrono::seconds back_off_cap,
                   WallTime wall);
// Why a container waits after a start that failed in that phase.
const char* ReasonOf(StartFailure::Phase phase);
// After a failed one. A failure to start (not to create) counts as an attempt that ended with 128.
EventNote RecordStartFailure(PodMemory& memory, const std::string& container, uint32_t attempt,
                             const StartFailure& failure, std::chrono::seconds back_off_cap,
                             WallTime wall, BootTime boot);
void RecordSignalled(PodMemory& memory, const std::string& container, WallTime wall, BootTime boot);
void RecordKilled(PodMemory& memory, const std::string& container, BootTime boot);
void RecordSandbox(PodMemory& memory, std::vector<std::string> pod_ips);

// More of a termination message than this is not read.
inline constexpr size_t kTerminationFileBytes = 4096;

// What a terminated state says, as UTF-8: the termination file, or the log's tail when the policy
// asks.
std::string TerminationMessage(const corev1::Container& spec, const ContainerFact& fact);

}  // namespace holdfast::agent
