// SPDX-License-Identifier: Apache-2.0
// The RuntimeDefault profile as data: which system calls are allowed to everybody, and which to a
// process with a capability, as containerd 2.4's default has it. Numbers per architecture, -1 where
// it does not have the call; from the kernel's unistd headers (6.1, and by hand above 450). Four
// calls are no rows because their arguments count: clone, clone3, personality, socket
// (seccomp_default.cc).
#pragma once

#include <cstdint>
#include <span>

namespace holdfast::runtime {

struct AllowedSyscall {
  const char* name;
  int16_t x86_64;
  int16_t i386;
  int16_t aarch64;
};

struct PrivilegedSyscall {
  AllowedSyscall call;
  uint8_t capability;
};

// The highest number the table was written for: a newer call gives ENOSYS, so that libc falls back.
inline constexpr uint32_t kNewestSyscall = 466;

std::span<const AllowedSyscall> AllowedSyscalls();
std::span<const PrivilegedSyscall> PrivilegedSyscalls();

}  // namespace holdfast::runtime
