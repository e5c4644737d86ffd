// SPDX-License-Identifier: Apache-2.0
// cgroup v1, also the v1 half of a hybrid machine. Source: Documentation/admin-guide/cgroup-v1.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/backend_internal.h"
#include "runtime/cgroup/formulas.h"

namespace holdfast::runtime {
namespace {

constexpr int kKillPasses = 50;
constexpr size_t kNumberLimit = 64;
constexpr std::string_view kPageLimitV1 = ".limit_in_bytes";

class CgroupV1 : public CgroupBackend {
 public:
  explicit CgroupV1(CgroupLayout layout) : layout_(std::move(layout)) {}

  const CgroupLayout& layout() const override { return layout_; }
  Result<void> EnableForChildren(const Cgroup&) override { return {}; }
  Result<void> Apply(const Cgroup& cgroup, const CgroupLimits& limits) override;
  Result<void> KillAll(const Cgroup& cgroup) override;
  Result<uint64_t> OomKills(const Cgroup& cgroup) override;
  Result<CgroupUsage> Usage(const Cgroup& cgroup) override;
  Result<CgroupLimits> Limits(const Cgroup& cgroup) override;
  Result<std::vector<uint64_t>> HugePageSizes(const Cgroup& cgroup) override;
  Result<uint64_t> PidsLimit(const Cgroup& cgroup) override {
    return ReadNumber(DirOf(cgroup, Controller::kPids), "pids.max");
  }

 private:
  int DirOf(const Cgroup& cgroup, Controller controller) const;

  const CgroupLayout layout_;
};

// -1 without such a controller (cpuacct and hugetlb only; the others are required).
int CgroupV1::DirOf(const Cgroup& cgroup, Controller controller) const {
  for (size_t i = 0; i < layout_.hierarchies.size(); ++i) {
    if (layout_.hierarchies[i].Has(controller)) return cgroup.dirs[i].get();
  }
  return -1;
}

Result<void> ApplyCpu(int dir, const CgroupLimits& limits) {
  if (limits.cpu_shares) {
    RETURN_IF_ERROR(WriteNumber(dir, "cpu.shares", static_cast<int64_t>(*limits.cpu_shares)));
  }
  if (limits.cpu_quota_us) {
    // The period is the kernel's default, which equals kCpuPeriodMicros; set in case it is not.
    if (*limits.cpu_quota_us != CgroupLimits::kUnlimited) {
      RETURN_IF_ERROR(
          WriteNumber(dir, "cpu.cfs_period_us", static_cast<int64_t>(kCpuPeriodMicros)));
    }
    RETURN_IF_ERROR(WriteNumber(dir, "cpu.cfs_quota_us", *limits.cpu_quota_us));
  }
  return {};
}

Result<void> WriteMemoryAndSwap(int dir, int64_t bytes) {
  auto swap = WriteNumber(dir, "memory.memsw.limit_in_bytes", bytes);
  // Absent where the kernel was started without swap accounting: swap is not limited there.
  if (!swap && swap.error().sys_errno() != ENOENT) return swap;
  return {};
}

// memsw (memory plus swap) may never be below memory: it is raised first and lowered last.
Result<void> ApplyMemory(int dir, const CgroupLimits& limits) {
  if (!limits.memory_bytes) return {};
  auto memory = WriteNumber(dir, "memory.limit_in_bytes", *limits.memory_bytes);
  if (!memory && memory.error().sys_errno() == EINVAL) {
    RETURN_IF_ERROR(WriteMemoryAndSwap(dir, *limits.memory_bytes));
    memory = WriteNumber(dir, "memory.limit_in_bytes", *limits.memory_bytes);
  }
  if (!memory && memory.error().sys_errno() == EBUSY) {
    return std::move(memory.error()).Wrap("more memory is in use than the new limit allows");
  }
  RETURN_IF_ERROR(std::move(memory));
  if (limits.swap_bytes != 0) return {};
  return WriteMemoryAndSwap(dir, *limits.memory_bytes);
}

std::string LineOf(const DeviceRule& rule) {
  const std::string major = rule.major < 0 ? "*" : std::to_string(rule.major);
  const std::string minor = rule.minor < 0 ? "*" : std::to_string(rule.minor);
  return StrCat(rule.type, " ", major, ":", minor, " ", rule.read ? "r" : "", rule.write ? "w" : "",
                rule.mknod ? "m" : "");
}

Result<void> Allow(int allow, const DeviceRule& rule) {
  const std::string line = LineOf(rule);
  if (::write(allow, line.data(), line.size()) >= 0) return {};
  return Error::FromErrno(errno, StrCat("write \"", line, "\" to devices.allow"));
}

Result<void> ApplyDevices(int dir, const CgroupLimits& limits) {
  if (!limits.standard_devices) return {};
  RETURN_IF_ERROR(sys::WriteControlAt(dir, "devices.deny", "a"));
  // One descriptor for all rules: this is on the way of every start.
  ASSIGN_OR_RETURN(const UniqueFd allow, sys::OpenAt(dir, "devices.allow", O_WRONLY));
  for (const DeviceRule& rule : kStandardDevices) RETURN_IF_ERROR(Allow(allow.get(), rule));
  for (const DeviceRule& rule : limits.devices) RETURN_IF_ERROR(Allow(allow.get(), rule));
  return {};
}

Result<void> ApplyPids(int dir, const CgroupLimits& limits) {
  if (!limits.pids) return {};
  if (*limits.pids == CgroupLimits::kUnlimited) return sys::WriteControlAt(dir, "pids.max", "max");
  return WriteNumber(dir, "pids.max", *limits.pids);
}

Result<void> CgroupV1::Apply(const Cgroup& cgroup, const CgroupLimits& limits) {
  const std::string context = StrCat("limit cgroup ", cgroup.path);
  RETURN_IF_ERROR(WithContext(ApplyCpu(DirOf(cgroup, Controller::kCpu), limits), context));
  RETURN_IF_ERROR(WithContext(ApplyMemory(DirOf(cgroup, Controller::kMemory), limits), context));
  RETURN_IF_ERROR(WithContext(ApplyPids(DirOf(cgroup, Controller::kPids), limits), context));
  if (const int dir = DirOf(cgroup, Controller::kHugetlb); dir >= 0) {
    RETURN_IF_ERROR(WithContext(ApplyHugePages(dir, limits, kPageLimitV1), context));
  }
  return WithContext(ApplyDevices(DirOf(cgroup, Controller::kDevices), limits), context);
}

Result<void> CgroupV1::KillAll(const Cgroup& cgroup) {
  // With no process allowed, nothing in it can fork any more, so the passes below converge. The
  // limit is not lifted again: a killed cgroup is only ever removed.
  auto closed = WriteNumber(DirOf(cgroup, Controller::kPids), "pids.max", 0);
  if (!closed && closed.error().code() != Code::kNotFound) return closed;
  for (int pass = 0; pass < kKillPasses; ++pass) {
    ASSIGN_OR_RETURN(const size_t hit, SignalEveryProcess(cgroup, SIGKILL));
    // The first pass sees everything; a second one what was being forked while the limit was set.
    if (hit == 0 || pass > 0) return {};
  }
  return {};
}

Result<uint64_t> CgroupV1::OomKills(const Cgroup& cgroup) {
  return ReadKeyed(DirOf(cgroup, Controller::kMemory), "memory.oom_control", "oom_kill");
}

Result<CgroupUsage> CgroupV1::Usage(const Cgroup& cgroup) {
  CgroupUsage usage;
  const int memory = DirOf(cgroup, Controller::kMemory);
  ASSIGN_OR_RETURN(usage.memory_bytes, ReadNumber(memory, "memory.usage_in_bytes"));
  ASSIGN_OR_RETURN(const uint64_t inactive,
                   ReadKeyed(memory, "memory.stat", "total_inactive_file"));
  usage.working_set_bytes = usage.memory_bytes > inactive ? usage.memory_bytes - inactive : 0;
  ASSIGN_OR_RETURN(usage.rss_bytes, ReadKeyed(memory, "memory.stat", "total_rss"));
  if (const int dir = DirOf(cgroup, Controller::kCpuAcct); dir >= 0) {
    ASSIGN_OR_RETURN(usage.cpu_nanos, ReadNumber(dir, "cpuacct.usage"));
  }
  ASSIGN_OR_RETURN(usage.pids, ReadNumber(DirOf(cgroup, Controller::kPids), "pids.current"));
  return usage;
}

Result<std::vector<uint64_t>> CgroupV1::HugePageSizes(const Cgroup& cgroup) {
  const int dir = DirOf(cgroup, Controller::kHugetlb);
  if (dir < 0) return std::vector<uint64_t>();
  return ListHugePageSizes(dir, kPageLimitV1);
}

Result<CgroupLimits> CgroupV1::Limits(const Cgroup& cgroup) {
  CgroupLimits limits;
  const int cpu = DirOf(cgroup, Controller::kCpu);
  ASSIGN_OR_RETURN(const std::string quota, sys::ReadFileAt(cpu, "cpu.cfs_quota_us", kNumberLimit));
  limits.cpu_quota_us = CgroupLimits::kUnlimited;
  if (!quota.starts_with('-')) {
    ASSIGN_OR_RETURN(const uint64_t us, ReadNumber(cpu, "cpu.cfs_quota_us"));
    ASSIGN_OR_RETURN(const uint64_t period, ReadNumber(cpu, "cpu.cfs_period_us"));
    limits.cpu_quota_us = QuotaPerPeriod(static_cast<int64_t>(us), static_cast<int64_t>(period));
  }
  ASSIGN_OR_RETURN(const uint64_t memory,
                   ReadNumber(DirOf(cgroup, Controller::kMemory), "memory.limit_in_bytes"));
  limits.memory_bytes = LimitOr(memory);
  return limits;
}

}  // namespace

std::unique_ptr<CgroupBackend> MakeCgroupV1(CgroupLayout layout) {
  return std::make_unique<CgroupV1>(std::move(layout));
}

}  // namespace holdfast::runtime
