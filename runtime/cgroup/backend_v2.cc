// SPDX-License-Identifier: Apache-2.0
// cgroup v2. Source: Documentation/admin-guide/cgroup-v2.rst.
#include <signal.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/backend_internal.h"
#include "runtime/cgroup/formulas.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kControllersLimit = 4096;
constexpr std::array<std::string_view, 3> kNeeded = {"cpu", "memory", "pids"};
// io: what a container reads from and writes to disks is counted in its cgroup's io.stat, for the metrics.
constexpr std::array<std::string_view, 2> kWelcome = {"hugetlb", "io"};
constexpr std::string_view kPageLimitV2 = ".max";

bool HasWord(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (text.substr(0, end) == word) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

class CgroupV2 : public CgroupBackend {
 public:
  explicit CgroupV2(CgroupLayout layout) : layout_(std::move(layout)) {}

  const CgroupLayout& layout() const override { return layout_; }
  Result<void> EnableForChildren(const Cgroup& cgroup) override;
  Result<void> Apply(const Cgroup& cgroup, const CgroupLimits& limits) override;
  Result<void> KillAll(const Cgroup& cgroup) override;
  Result<uint64_t> OomKills(const Cgroup& cgroup) override {
    return ReadKeyed(cgroup.dirs[0].get(), "memory.events", "oom_kill");
  }
  Result<CgroupUsage> Usage(const Cgroup& cgroup) override;
  Result<CgroupLimits> Limits(const Cgroup& cgroup) override;
  Result<std::vector<uint64_t>> HugePageSizes(const Cgroup& cgroup) override {
    return ListHugePageSizes(cgroup.dirs[0].get(), kPageLimitV2);
  }
  Result<uint64_t> PidsLimit(const Cgroup& cgroup) override {
    return ReadNumber(cgroup.dirs[0].get(), "pids.max");
  }

 private:
  const CgroupLayout layout_;
};

Result<void> CgroupV2::EnableForChildren(const Cgroup& cgroup) {
  const int dir = cgroup.dirs[0].get();
  ASSIGN_OR_RETURN(const std::string enabled,
                   sys::ReadFileAt(dir, "cgroup.subtree_control", kControllersLimit));
  ASSIGN_OR_RETURN(const std::string available,
                   sys::ReadFileAt(dir, "cgroup.controllers", kControllersLimit));
  std::string request;
  const auto ask = [&](std::string_view name) {
    if (!HasWord(enabled, name)) request += StrCat(request.empty() ? "+" : " +", name);
  };
  for (const std::string_view name : kNeeded) {
    if (!HasWord(enabled, name) && !HasWord(available, name)) {
      return Unsupported(StrCat("controller ", name, " is not enabled for cgroup ", cgroup.path,
                                ": enable it in its parent's cgroup.subtree_control"));
    }
    ask(name);
  }
  for (const std::string_view name : kWelcome) {
    if (HasWord(available, name)) ask(name);
  }
  if (request.empty()) return {};
  auto written = sys::WriteControlAt(dir, "cgroup.subtree_control", request);
  if (!written && written.error().sys_errno() == EBUSY) {
    return std::move(written.error())
        .Wrap(
            StrCat("cgroup ", cgroup.path, " holds processes, so it cannot have limited children"));
  }
  return WithContext(std::move(written), StrCat("cgroup ", cgroup.path));
}

std::string MaxOr(int64_t value) {
  return value == CgroupLimits::kUnlimited ? "max" : std::to_string(value);
}

Result<void> ApplyV2(int dir, const CgroupLimits& limits) {
  if (limits.cpu_shares) {
    RETURN_IF_ERROR(WriteNumber(dir, "cpu.weight",
                                static_cast<int64_t>(CpuWeightFromShares(*limits.cpu_shares))));
  }
  if (limits.cpu_quota_us) {
    RETURN_IF_ERROR(sys::WriteControlAt(
        dir, "cpu.max", StrCat(MaxOr(*limits.cpu_quota_us), " ", kCpuPeriodMicros)));
  }
  if (limits.memory_bytes) {
    RETURN_IF_ERROR(sys::WriteControlAt(dir, "memory.max", MaxOr(*limits.memory_bytes)));
  }
  for (const auto& [file, bytes] :
       {std::pair("memory.min", limits.memory_min), std::pair("memory.low", limits.memory_low),
        std::pair("memory.high", limits.memory_high)}) {
    if (bytes) RETURN_IF_ERROR(sys::WriteControlAt(dir, file, MaxOr(*bytes)));
  }
  if (limits.swap_bytes) {
    auto swap = WriteNumber(dir, "memory.swap.max", *limits.swap_bytes);
    // Absent where the kernel was started without swap accounting.
    if (!swap && swap.error().sys_errno() != ENOENT) return swap;
  }
  if (limits.oom_group) RETURN_IF_ERROR(sys::WriteControlAt(dir, "memory.oom.group", "1"));
  if (limits.pids) RETURN_IF_ERROR(sys::WriteControlAt(dir, "pids.max", MaxOr(*limits.pids)));
  if (limits.standard_devices) RETURN_IF_ERROR(AttachDeviceFilter(dir, limits.devices));
  return ApplyHugePages(dir, limits, kPageLimitV2);
}

Result<void> CgroupV2::Apply(const Cgroup& cgroup, const CgroupLimits& limits) {
  return WithContext(ApplyV2(cgroup.dirs[0].get(), limits), StrCat("limit cgroup ", cgroup.path));
}

Result<void> CgroupV2::KillAll(const Cgroup& cgroup) {
  auto killed = sys::WriteControlAt(cgroup.dirs[0].get(), "cgroup.kill", "1");
  if (!killed && killed.error().code() == Code::kNotFound) return {};  // it is gone already
  return WithContext(std::move(killed), StrCat("kill cgroup ", cgroup.path));
}

Result<CgroupUsage> CgroupV2::Usage(const Cgroup& cgroup) {
  CgroupUsage usage;
  const int dir = cgroup.dirs[0].get();
  ASSIGN_OR_RETURN(const uint64_t cpu_us, ReadKeyed(dir, "cpu.stat", "usage_usec"));
  usage.cpu_nanos = cpu_us * 1000;
  ASSIGN_OR_RETURN(usage.memory_bytes, ReadNumber(dir, "memory.current"));
  ASSIGN_OR_RETURN(const uint64_t inactive, ReadKeyed(dir, "memory.stat", "inactive_file"));
  usage.working_set_bytes = usage.memory_bytes > inactive ? usage.memory_bytes - inactive : 0;
  ASSIGN_OR_RETURN(usage.rss_bytes, ReadKeyed(dir, "memory.stat", "anon"));
  ASSIGN_OR_RETURN(usage.pids, ReadNumber(dir, "pids.current"));
  return usage;
}

// "max 100000" or "50000 100000": the quota is per period, and the period may be another's.
Result<int64_t> ReadCpuQuota(int dir) {
  ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(dir, "cpu.max", kControllersLimit));
  if (text.starts_with("max")) return CgroupLimits::kUnlimited;
  int64_t quota = 0, period = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, quota);
  if (first.ec == std::errc() && first.ptr != end) std::from_chars(first.ptr + 1, end, period);
  if (quota <= 0 || period <= 0) return Internal(StrCat("cpu.max says \"", text, "\""));
  return QuotaPerPeriod(quota, period);
}

Result<CgroupLimits> CgroupV2::Limits(const Cgroup& cgroup) {
  CgroupLimits limits;
  const int dir = cgroup.dirs[0].get();
  ASSIGN_OR_RETURN(limits.cpu_quota_us, ReadCpuQuota(dir));
  ASSIGN_OR_RETURN(const uint64_t memory, ReadNumber(dir, "memory.max"));
  limits.memory_bytes = LimitOr(memory);
  return limits;
}

}  // namespace

std::unique_ptr<CgroupBackend> MakeCgroupV2(CgroupLayout layout) {
  return std::make_unique<CgroupV2>(std::move(layout));
}

}  // namespace holdfast::runtime
