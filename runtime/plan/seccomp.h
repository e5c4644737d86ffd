// SPDX-License-Identifier: Apache-2.0
// Seccomp programs. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

// Whose programs a filter tells apart: on x86_64 those of i386 too.
enum class SeccompMachine : uint8_t { kX86_64, kAarch64 };
#if defined(__x86_64__)
inline constexpr SeccompMachine kThisMachine = SeccompMachine::kX86_64;
#elif defined(__aarch64__)
inline constexpr SeccompMachine kThisMachine = SeccompMachine::kAarch64;
#else
#error "no system call numbers for this architecture"
#endif

// The RuntimeDefault profile for a process with these capabilities (bit n is capability n).
std::vector<model::BpfInstruction> DefaultSeccompProgram(uint64_t capabilities,
                                                         SeccompMachine machine = kThisMachine);

}  // namespace holdfast::runtime
