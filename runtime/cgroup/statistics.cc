// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/statistics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "holdfast/base/keyed_number.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kMostBytes = 256u << 10;
constexpr uint64_t kNoLimitV1 = 1ull << 62;  // v1 says LONG_MAX, down to a page

// A file of the cgroup; "" when this kernel or cgroup has none.
std::string Text(int dir, const char* file) {
  auto text = sys::ReadFileAt(dir, file, kMostBytes);
  return text ? std::move(*text) : std::string();
}

uint64_t ToNumber(std::string_view text) {
  uint64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);  // else it is 0
  return value;
}

uint64_t Number(int dir, const char* file) { return ToNumber(Text(dir, file)); }

uint64_t Limit(int dir, const char* file) {
  const std::string text = Text(dir, file);
  if (text.empty() || text.starts_with("max")) return UINT64_MAX;
  const uint64_t value = ToNumber(text);
  return value >= kNoLimitV1 ? UINT64_MAX : value;
}

// Calls visit(key, value) for each line "key value".
template <class Visit>
void ForEachLine(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t space = line.find(' ');
    if (space != std::string_view::npos) visit(line.substr(0, space), line.substr(space + 1));
  }
}

uint64_t Lines(const std::string& text) {
  return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

uint64_t Difference(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

// --- v2 ---

void ReadCpuV2(int dir, CgroupStatistics& out) {
  const std::string text = Text(dir, "cpu.stat");
  out.cpu.nanos = KeyedNumber(text, "usage_usec") * 1000;
  out.cpu.user_nanos = KeyedNumber(text, "user_usec") * 1000;
  out.cpu.system_nanos = KeyedNumber(text, "system_usec") * 1000;
  out.cpu.periods = KeyedNumber(text, "nr_periods");
  out.cpu.throttled_periods = KeyedNumber(text, "nr_throttled");
  out.cpu.throttled_nanos = KeyedNumber(text, "throttled_usec") * 1000;
  // "max 100000" or "50000 100000"
  const std::string most = Text(dir, "cpu.max");
  if (const size_t space = most.find(' '); space != std::string::npos) {
    out.cpu.period_micros = ToNumber(std::string_view(most).substr(space + 1));
    if (!most.starts_with("max")) out.cpu.quota_micros = ToNumber(most);
  }
}

// `stat`: what memory.stat says.
MemoryUse MemoryUseV2(int dir, std::string_view stat) {
  const uint64_t usage = Number(dir, "memory.current");
  return {usage, Difference(usage, KeyedNumber(stat, "inactive_file")), Limit(dir, "memory.max")};
}

void ReadMemoryV2(int dir, MemoryStatistics& memory) {
  const std::string text = Text(dir, "memory.stat"), events = Text(dir, "memory.events");
  static_cast<MemoryUse&>(memory) = MemoryUseV2(dir, text);
  memory.rss = KeyedNumber(text, "anon");
  memory.cache = KeyedNumber(text, "file");
  memory.mapped_file = KeyedNumber(text, "file_mapped");
  memory.kernel = KeyedNumber(text, "kernel");
  memory.faults = KeyedNumber(text, "pgfault");
  memory.major_faults = KeyedNumber(text, "pgmajfault");
  memory.swap = Number(dir, "memory.swap.current");
  memory.swap_limit = Limit(dir, "memory.swap.max");
  memory.most = Number(dir, "memory.peak");  // since Linux 5.19
  memory.limit_hits = KeyedNumber(events, "max");
  memory.oom_kills = KeyedNumber(events, "oom_kill");
}

// "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0", a line for each device.
void ReadIoV2(int dir, CgroupStatistics& out) {
  if (!sys::ExistsAt(dir, "io.stat")) return;
  DiskTraffic& disks = out.io.disks.emplace();
  ForEachLine(Text(dir, "io.stat"), [&disks](std::string_view, std::string_view values) {
    const auto add = [&](std::string_view name, uint64_t& sum) {
      const size_t at = values.find(name);
      if (at != std::string_view::npos) sum += ToNumber(values.substr(at + name.size()));
    };
    add("rbytes=", disks.read_bytes);
    add("wbytes=", disks.written_bytes);
    add("rios=", disks.reads);
    add("wios=", disks.writes);
  });
}

void ReadPressure(int dir, CgroupStatistics& out) {
  out.cpu.pressure = ParsePressure(Text(dir, "cpu.pressure"));
  out.memory.pressure = ParsePressure(Text(dir, "memory.pressure"));
  out.io.pressure = ParsePressure(Text(dir, "io.pressure"));
}

void ReadPids(int dir, CgroupStatistics& out) {
  out.threads = Number(dir, "pids.current");
  out.most_threads = Limit(dir, "pids.max");
  out.processes = Lines(Text(dir, "cgroup.procs"));
}

// --- v1 ---

void ReadCpuV1(int dir, CgroupStatistics& out) {
  out.cpu.period_micros = Number(dir, "cpu.cfs_period_us");
  const std::string quota = Text(dir, "cpu.cfs_quota_us");
  if (!quota.empty() && !quota.starts_with('-')) out.cpu.quota_micros = ToNumber(quota);
  const std::string text = Text(dir, "cpu.stat");
  out.cpu.periods = KeyedNumber(text, "nr_periods");
  out.cpu.throttled_periods = KeyedNumber(text, "nr_throttled");
  out.cpu.throttled_nanos = KeyedNumber(text, "throttled_time");
}

void ReadCpuAcctV1(int dir, CgroupStatistics& out) {
  out.cpu.nanos = Number(dir, "cpuacct.usage");
  const std::string text = Text(dir, "cpuacct.stat");
  static const auto tick = static_cast<uint64_t>(1'000'000'000 / ::sysconf(_SC_CLK_TCK));
  out.cpu.user_nanos = KeyedNumber(text, "user") * tick;
  out.cpu.system_nanos = KeyedNumber(text, "system") * tick;
}

MemoryUse MemoryUseV1(int dir, std::string_view stat) {
  const uint64_t usage = Number(dir, "memory.usage_in_bytes");
  return {usage, Difference(usage, KeyedNumber(stat, "total_inactive_file")),
          Limit(dir, "memory.limit_in_bytes")};
}

void ReadMemoryV1(int dir, MemoryStatistics& memory) {
  const std::string text = Text(dir, "memory.stat");
  static_cast<MemoryUse&>(memory) = MemoryUseV1(dir, text);
  memory.rss = KeyedNumber(text, "total_rss");
  memory.cache = KeyedNumber(text, "total_cache");
  memory.mapped_file = KeyedNumber(text, "total_mapped_file");
  memory.kernel = Number(dir, "memory.kmem.usage_in_bytes");
  memory.faults = KeyedNumber(text, "total_pgfault");
  memory.major_faults = KeyedNumber(text, "total_pgmajfault");
  memory.swap = KeyedNumber(text, "total_swap");
  const uint64_t both = Limit(dir, "memory.memsw.limit_in_bytes");
  if (both != UINT64_MAX && memory.limit != UINT64_MAX) {
    memory.swap_limit = Difference(both, memory.limit);
  }
  memory.most = Number(dir, "memory.max_usage_in_bytes");
  memory.limit_hits = Number(dir, "memory.failcnt");
  memory.oom_kills = KeyedNumber(Text(dir, "memory.oom_control"), "oom_kill");
}

void ReadHierarchyV1(const CgroupHierarchy& hierarchy, int dir, CgroupStatistics& out) {
  if (hierarchy.Has(Controller::kCpu)) ReadCpuV1(dir, out);
  if (hierarchy.Has(Controller::kCpuAcct)) ReadCpuAcctV1(dir, out);
  if (hierarchy.Has(Controller::kMemory)) ReadMemoryV1(dir, out.memory);
  if (hierarchy.Has(Controller::kPids)) ReadPids(dir, out);
}

// "some avg10=0.00 avg60=0.00 avg300=0.00 total=0"
bool ParsePressureLine(std::string_view values, PressureLine& out) {
  const auto part = [&](std::string_view name, auto& value) {
    const size_t at = values.find(name);
    if (at == std::string_view::npos) return false;
    const char* const begin = values.data() + at + name.size();
    return std::from_chars(begin, values.data() + values.size(), value).ec == std::errc();
  };
  return part("avg10=", out.avg10) && part("avg60=", out.avg60) && part("avg300=", out.avg300) &&
         part("total=", out.total_micros);
}

}  // namespace

std::optional<Pressure> ParsePressure(const std::string& text) {
  Pressure out;
  bool some = false;
  ForEachLine(text, [&](std::string_view kind, std::string_view values) {
    if (kind == "some") some = ParsePressureLine(values, out.some);
    if (kind == "full") (void)ParsePressureLine(values, out.full);  // cpu had none before 5.13
  });
  return some ? std::optional(out) : std::nullopt;
}

Result<CgroupStatistics> ReadStatistics(const CgroupLayout& layout, const std::string& path) {
  CgroupStatistics out;
  for (size_t i = 0; i < layout.WithLimits(); ++i) {
    const CgroupHierarchy& hierarchy = layout.hierarchies[i];
    ASSIGN_OR_RETURN(const DirFd dir, sys::OpenDir(hierarchy.mount_point + path));
    if (layout.version == CgroupVersion::kV1) {
      ReadHierarchyV1(hierarchy, dir.get(), out);
      continue;
    }
    ReadCpuV2(dir.get(), out);
    ReadMemoryV2(dir.get(), out.memory);
    ReadIoV2(dir.get(), out);
    ReadPressure(dir.get(), out);
    ReadPids(dir.get(), out);
  }
  // Of a hybrid's pods only the tree beside the controllers knows it.
  for (size_t i = layout.WithLimits(); i < layout.hierarchies.size(); ++i) {
    if (!layout.hierarchies[i].unified) continue;
    const auto dir = sys::OpenDir(layout.hierarchies[i].mount_point + path);
    if (dir) ReadPressure(dir->get(), out);
  }
  return out;
}

Result<MemoryUse> ReadMemoryUse(const CgroupLayout& layout, const std::string& path) {
  for (const CgroupHierarchy& hierarchy : layout.hierarchies) {
    if (!hierarchy.Has(Controller::kMemory)) continue;
    ASSIGN_OR_RETURN(const DirFd dir, sys::OpenDir(hierarchy.mount_point + path));
    const std::string stat = Text(dir.get(), "memory.stat");
    return layout.version == CgroupVersion::kV1 ? MemoryUseV1(dir.get(), stat)
                                                : MemoryUseV2(dir.get(), stat);
  }
  return MemoryUse();
}

}  // namespace holdfast::runtime
