// SPDX-License-Identifier: Apache-2.0
// What the whole machine has used, from small files of /proc. Thread-safe: no state; the parsers are pure.
// Source: proc(5), feature-map 1.16.1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "runtime/cgroup/statistics.h"

namespace holdfast::agent {

struct InterfaceStats {
  std::string name;
  uint64_t rx_bytes = 0, rx_packets = 0, rx_errors = 0, rx_dropped = 0;
  uint64_t tx_bytes = 0, tx_packets = 0, tx_errors = 0, tx_dropped = 0;
};
// Of a file like /proc/net/dev, without the loopback.
std::vector<InterfaceStats> ParseInterfaces(const std::string& text);

// "MemTotal:" of /proc/meminfo, in bytes; 0 when it is not there.
uint64_t MeminfoBytes(const std::string& text, const std::string& name);
// As cgroups count it, which is how a kubelet reads the root's: what programs have, and files that are cached; not the
// kernel's own, which it gives back in part. Of /proc/meminfo.
struct MachineMemory {
  uint64_t total = 0, usage = 0;
  uint64_t working_set = 0;  // without pages of files that nobody used lately
};
MachineMemory ParseMachineMemory(const std::string& text);
// All CPUs' time that was not idle, from /proc/stat.
uint64_t BusyNanos(const std::string& text, uint64_t ticks_per_second);

struct MachineStats {
  runtime::CgroupStatistics used;  // as of a cgroup that all belongs to; limits are the machine's
  uint64_t swap_total = 0;
  uint64_t most_pids = 0;
  WallTime booted;
  std::vector<InterfaceStats> interfaces;  // of this network namespace
};
MachineStats ReadMachineStats();

struct FsUsage {
  uint64_t available = 0, capacity = 0, used = 0;
  uint64_t inodes_free = 0, inodes = 0, inodes_used = 0;
};
// Of the file system that `path` lies on; nullopt when it cannot be asked. May wait for it.
std::optional<FsUsage> ReadFsUsage(const std::string& path);

}  // namespace holdfast::agent
