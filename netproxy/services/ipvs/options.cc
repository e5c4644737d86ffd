// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/ipvs/options.h"

#include <linux/ip_vs.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::ipvs {
namespace {

constexpr std::array<std::string_view, 13> kSchedulers = {
    "rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq", "fo", "ovf"};

struct Flag {
  std::string_view name;
  std::string_view scheduler;
  uint32_t bit;
};
constexpr std::array<Flag, 4> kFlags = {{
    {"sh-fallback", "sh", IP_VS_SVC_F_SCHED_SH_FALLBACK},
    {"sh-port", "sh", IP_VS_SVC_F_SCHED_SH_PORT},
    {"mh-fallback", "mh", IP_VS_SVC_F_SCHED1},
    {"mh-port", "mh", IP_VS_SVC_F_SCHED2},
}};

}  // namespace

Result<uint32_t> SchedulerFlags(const IpvsOptions& options) {
  if (std::find(kSchedulers.begin(), kSchedulers.end(), options.scheduler) == kSchedulers.end()) {
    return InvalidArgument(StrCat("ipvs: there is no scheduler \"", options.scheduler, "\""));
  }
  uint32_t out = 0;
  for (const std::string& name : options.scheduler_flags) {
    const auto* flag = std::find_if(kFlags.begin(), kFlags.end(),
                                    [&](const Flag& candidate) { return candidate.name == name; });
    if (flag == kFlags.end() || flag->scheduler != options.scheduler) {
      return InvalidArgument(
          StrCat("ipvs: scheduler ", options.scheduler, " has no flag \"", name, "\""));
    }
    out |= flag->bit;
  }
  return out;
}

}  // namespace holdfast::netproxy::ipvs
