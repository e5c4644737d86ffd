// SPDX-License-Identifier: Apache-2.0
// What the cgroups above our tree allow: ours can have no more, whatever the machine has. So it is
// in a container, in a virtual machine's guest of systemd-nspawn, and below a slice with limits.
// Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/cgroup/backend.h"

namespace holdfast::runtime {

struct CgroupBounds {
  int64_t memory_bytes = CgroupLimits::kUnlimited;
  int64_t pids = CgroupLimits::kUnlimited;
  bool operator==(const CgroupBounds&) const = default;
};

// The smallest limits of `parent` ("" or "/a/b") and all cgroups above it that are visible here.
// One that does not exist (yet) limits nothing.
Result<CgroupBounds> BoundsAbove(const CgroupLayout& layout, const std::string& parent);

}  // namespace holdfast::runtime
