// SPDX-License-Identifier: Apache-2.0
// What a seccomp program of this machine's architecture says to one call, without loading it. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

// Whether the call goes through (it may be logged). Of its arguments all but the first are 0. A
// program that cannot be evaluated allows nothing.
bool FilterAllows(std::span<const model::BpfInstruction> program, long call,
                  uint64_t first_argument = 0);

}  // namespace holdfast::runtime
