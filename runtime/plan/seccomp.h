// SPDX-License-Identifier: Apache-2.0
// Seccomp programs. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"
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

// An OCI seccomp profile (JSON) of the node, through libseccomp. kNotFound and kInvalidArgument
// name the file; never an empty program.
Result<std::vector<model::BpfInstruction>> LoadSeccompProfile(const std::string& path,
                                                              uint64_t capabilities);

// What the spec asks for: empty only for Unconfined and privileged.
Result<std::vector<model::BpfInstruction>> CompileSeccomp(const model::SecuritySpec& security,
                                                          uint64_t capabilities);

}  // namespace holdfast::runtime
