// SPDX-License-Identifier: Apache-2.0
// What a cgroup has used, waits for and is limited to, as monitoring wants it; v1, hybrid and v2. What a kernel or a
// version does not have is absent or 0. Reads a dozen small files; thread-safe: no state.
// Source: feature-map 1.16; Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/, accounting/psi.rst.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/base/result.h"
#include "runtime/cgroup/layout.h"

namespace holdfast::runtime {

struct PressureLine {
  double avg10 = 0, avg60 = 0, avg300 = 0;  // per cent of the time
  uint64_t total_micros = 0;
};
struct Pressure {
  PressureLine some, full;
};
// Of a *.pressure file; nullopt for other text. Pure.
std::optional<Pressure> ParsePressure(const std::string& text);

// From and to all disks.
struct DiskTraffic {
  uint64_t read_bytes = 0, written_bytes = 0, reads = 0, writes = 0;
};

struct MemoryUse {
  uint64_t usage = 0, working_set = 0;
  uint64_t limit = UINT64_MAX;  // UINT64_MAX: none
};
struct MemoryStatistics : MemoryUse {
  uint64_t rss = 0, cache = 0, mapped_file = 0, swap = 0, kernel = 0;
  uint64_t swap_limit = UINT64_MAX, most = 0;  // UINT64_MAX: none
  uint64_t faults = 0, major_faults = 0, limit_hits = 0, oom_kills = 0;
  std::optional<Pressure> pressure;
};

struct CgroupStatistics {
  struct {
    uint64_t nanos = 0, user_nanos = 0, system_nanos = 0;
    uint64_t periods = 0, throttled_periods = 0, throttled_nanos = 0;
    uint64_t period_micros = 0;
    std::optional<uint64_t> quota_micros;  // of each period; absent: no limit
    std::optional<Pressure> pressure;
  } cpu;
  MemoryStatistics memory;
  struct {
    std::optional<DiskTraffic>
        disks;  // absent: nobody counts (v1, or v2 without the io controller)
    std::optional<Pressure> pressure;
  } io;
  uint64_t processes = 0, threads = 0, most_threads = UINT64_MAX;
};

// `path`: below the hierarchies' mount points, "/kubepods/…". kNotFound when there is no such cgroup.
Result<CgroupStatistics> ReadStatistics(const CgroupLayout& layout, const std::string& path);
// Only this part of them, of three files.
Result<MemoryUse> ReadMemoryUse(const CgroupLayout& layout, const std::string& path);

}  // namespace holdfast::runtime
