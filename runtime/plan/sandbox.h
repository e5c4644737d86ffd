// SPDX-License-Identifier: Apache-2.0
// SandboxSpec -> SandboxPlan. Pure.
#pragma once

#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

// Without init and id maps. Adds containerd's default sysctls (unprivileged ports and ping) to a
// pod with its own network namespace. kInvalidArgument names a sysctl that is malformed, not
// namespaced, or of a namespace that the pod shares with the host.
Result<model::SandboxPlan> CompileSandbox(const model::SandboxSpec& spec);

}  // namespace holdfast::runtime
