// SPDX-License-Identifier: Apache-2.0
// Programs that a killed agent has left running: nobody ends them when their time is up. Thread-safe: no state.
// Source: proc(5).
#pragma once

#include <string>

namespace holdfast::agent {

// Kills every BoundedProgram of `owner`, and all that it started, which is still there. False: one does not end within
// 5 s. To be called before this agent starts one of that owner.
bool EndOrphans(const std::string& owner);

}  // namespace holdfast::agent
