// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/runtime/seccomp/targets.h"

#include <linux/capability.h>
#include <sys/mman.h>

#include <string>

#include "holdfast/sys/files.h"
#include "runtime/gather/seccomp.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

void FuzzSeccompProfile(std::string_view input) {
  const UniqueFd file(::memfd_create("profile", MFD_CLOEXEC));
  Require(file && sys::WriteAll(file.get(), input), "the profile is written", input);
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  const auto plan = runtime::LoadSeccompProfile(path, 1ull << CAP_SYS_ADMIN);
  if (plan) Require(!plan->program.empty(), "nothing runs without a filter", input);
}

}  // namespace holdfast::fuzz
