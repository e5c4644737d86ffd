// SPDX-License-Identifier: Apache-2.0
// NodeEnvironment: what of the node shows inside a pod. Plain values, read once at start and at
// every resync.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/model/selinux.h"

namespace holdfast::agent {

// What AppArmor does for containers.
struct AppArmorOffer {
  bool enabled = false;
  std::string profile;     // of type RuntimeDefault, and of who names none; "": there is none
  std::string no_profile;  // why
};

// How memory is given to containers, beside their limits; both need cgroup v2.
struct MemoryPolicy {
  bool limited_swap = false;       // swapBehavior LimitedSwap
  bool qos = false;                // memoryQos
  bool reserves = false;           // memoryReservationPolicy TieredReservation, with `qos`
  double throttling_factor = 0.9;  // memoryThrottlingFactor
  int64_t page_bytes = 4096;
};

struct NodeEnvironment {
  std::string node_name;
  std::vector<std::string> host_ips;  // primary family first
  int64_t cpu_milli_capacity = 0;
  int64_t memory_capacity_bytes = 0;
  int64_t memory_allocatable_bytes = 0;  // what pods may have of it together; 0: not known
  int64_t swap_capacity_bytes = 0;
  MemoryPolicy memory;
  std::string cluster_domain;
  std::vector<std::string> cluster_dns;
  std::string resolv_conf;  // content of the node's file
  std::string hosts;        // content of the node's /etc/hosts, for hostNetwork pods
  std::string seccomp_dir;  // profiles of type Localhost lie below
  AppArmorOffer app_armor;
  std::optional<model::SelinuxContexts> selinux;  // none: the kernel has no SELinux
  std::vector<std::string> runtime_handlers;  // of RuntimeClasses, that mean this node's runtime
  uint64_t log_max_size_bytes = 10ull << 20;
  uint32_t log_max_files = 5;
};

}  // namespace holdfast::agent
