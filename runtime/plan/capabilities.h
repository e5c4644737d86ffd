// SPDX-License-Identifier: Apache-2.0
// Capabilities by name, and which a container gets. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/launch_plan.h"
#include "holdfast/sys/probe.h"

namespace holdfast::runtime {

// The number for "NET_ADMIN", "cap_net_admin", …; -1 when there is none.
int CapabilityNumber(std::string_view name);
// "CAP_NET_ADMIN".
std::string CapabilityName(int number);

// The set every container starts from.
uint64_t DefaultCapabilities();

// add and drop as Kubernetes has them: "ALL" first, then the single names. What this host cannot
// give is left out; for a name that was asked for singly `warnings` says so. kInvalidArgument names
// an unknown capability.
Result<uint64_t> CompileCapabilities(const model::SecuritySpec& security,
                                     const sys::HostFacts& facts,
                                     std::vector<std::string>& warnings);

}  // namespace holdfast::runtime
