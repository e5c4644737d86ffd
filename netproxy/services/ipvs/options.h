// SPDX-License-Identifier: Apache-2.0
// How IPVS is to be used: KubeProxyConfiguration's `ipvs` and what else differs between nodes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"

namespace holdfast::netproxy::ipvs {

struct IpvsOptions {
  std::string scheduler = "rr";
  // "sh-port", "sh-fallback", "mh-port", "mh-fallback"; those of another scheduler are refused.
  std::vector<std::string> scheduler_flags;
  // Virtual servers of these addresses are not ours, whatever they look like.
  std::vector<Cidr> exclude_cidrs;
  // This node answers ARP for an address only on the link that has it: service addresses are then
  // announced by somebody else, and exactly one node answers.
  bool strict_arp = false;
  // 0: as it is.
  std::chrono::seconds tcp_timeout{0};
  std::chrono::seconds tcp_fin_timeout{0};
  std::chrono::seconds udp_timeout{0};
  // A real server that was taken away keeps its connections so long at most.
  std::chrono::seconds drain_limit{900};
  // Service addresses are put on this dummy device; where there is no such kind of device, they
  // are local routes.
  std::string device = "holdfast-ipvs";
  bool use_dummy = true;  // false: local routes, whatever the kernel has
  std::string nft_table = "holdfast-ipvs";
  // What kernel parameters were before us, for Remove(); a directory that a reboot empties. "":
  // they are not remembered.
  std::string state_dir;
};

// IP_VS_SVC_F_* of the scheduler's flags; an unknown scheduler or flag is kInvalidArgument.
Result<uint32_t> SchedulerFlags(const IpvsOptions& options);

}  // namespace holdfast::netproxy::ipvs
