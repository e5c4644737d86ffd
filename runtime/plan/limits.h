// SPDX-License-Identifier: Apache-2.0
// Resource limits of a process. Pure.
#pragma once

#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/launch_plan.h"
#include "holdfast/sys/probe.h"

namespace holdfast::runtime {

// RLIMIT_NOFILE gets systemd's default for services (1024, 524288 or as many as the host can give),
// whatever the agent itself runs with; the others are inherited. `wanted` overrides.
// kInvalidArgument for an unknown name or soft above hard.
Result<std::vector<model::RlimitPlan>> CompileRlimits(const std::vector<model::Rlimit>& wanted,
                                                      const sys::HostFacts& facts);

}  // namespace holdfast::runtime
