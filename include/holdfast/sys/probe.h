// SPDX-License-Identifier: Apache-2.0
// HostFacts: which calls and features this kernel has, found by trying, once, at start. Whoever
// branches on a fact takes HostFacts as a parameter, so that tests can force every fall-back.
#pragma once

#include <cstdint>

#include "holdfast/base/result.h"

namespace holdfast::sys {

struct HostFacts {
  bool overlay_lower_fd = false;    // fsconfig SET_FD "lowerdir+" (6.13)
  bool overlay_lower_add = false;   // fsconfig "lowerdir+" one by one (6.7)
  bool open_tree_detached = false;  // open_tree(CLONE) of a detached mount (6.15)
  bool pidfd_info_exit = false;     // PIDFD_GET_INFO tells the exit code after reaping (6.15)
  bool time_namespace = false;
  bool user_namespace = false;
  bool cap_sys_resource = false;  // may raise hard limits and lower oom_score_adj
  uint32_t last_capability = 40;  // highest number the kernel knows
  uint64_t capabilities = 0;      // bounding set: what can be given at most. Probed: this process's
  uint64_t max_open_files = 0;    // hard RLIMIT_NOFILE of this process
  bool operator==(const HostFacts&) const = default;
};

// Needs the privilege of the agent (mounts a detached overlay and a tmpfs). Leaves nothing behind.
// Fails with kUnsupported, naming the call, when something is missing below the floor (Linux 5.14).
Result<HostFacts> ProbeHost();

// The version of Landlock's interface, from 1 (5.13); 0: the kernel has none, or it is switched off (lsm=).
uint32_t LandlockAbi();
// With less, hard links could not be made inside (LANDLOCK_ACCESS_FS_REFER, 5.19), and it is left out.
inline constexpr uint32_t kUsefulLandlock = 2;

}  // namespace holdfast::sys
