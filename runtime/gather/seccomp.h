// SPDX-License-Identifier: Apache-2.0
// The seccomp program that a container asks for. Thread-safe. For the agent process only
// (libseccomp for Localhost profiles).
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

// An OCI seccomp profile (JSON) of the node, through libseccomp. kNotFound and kInvalidArgument
// name the file; never an empty program.
Result<model::SeccompPlan> LoadSeccompProfile(const std::string& path, uint64_t capabilities);

// What the spec asks for: empty only for Unconfined and privileged.
Result<model::SeccompPlan> SeccompOf(const model::SecuritySpec& security, uint64_t capabilities);

}  // namespace holdfast::runtime
