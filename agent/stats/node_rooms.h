// SPDX-License-Identifier: Apache-2.0
// What is left of what pods share, by a kubelet's signals. Thread-safe: no state. Source: feature-map 1.11.3, 1.11.9.
#pragma once

#include <cstdint>
#include <map>

#include "agent/config/eviction.h"
#include "holdfast/base/result.h"
#include "holdfast/model/instance.h"
#include "runtime/cgroup/layout.h"
#include "runtime/cgroup/naming.h"

namespace holdfast::agent {

// What is left of how much. A total of 0: not known, or not limited.
struct Room {
  uint64_t left = 0;
  uint64_t total = 0;
};

// What is not known is not there.
using NodeRooms = std::map<PressureSignal, Room>;

// Reads /proc, the cgroup of all pods, and the file systems, for which it may wait. `cgroups`: an error where they cannot be seen.
NodeRooms ReadRooms(const model::Instance& instance, runtime::CgroupNaming naming,
                    const Result<runtime::CgroupLayout>& cgroups);

bool IsShort(const Room& room, const model::Threshold& least);

}  // namespace holdfast::agent
