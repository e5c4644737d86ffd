// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/backend_internal.h"
#include "runtime/cgroup/formulas.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kFileLimit = 256 * 1024;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kHugeLimit = uint64_t{1} << 62;

uint64_t ParseNumber(std::string_view text) {
  uint64_t value = 0;
  if (text.starts_with("max")) return kNoLimit;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

constexpr std::string_view kPageFile = "hugetlb.";
constexpr std::pair<std::string_view, uint64_t> kPageUnits[] = {
    {"KB", 1ull << 10}, {"MB", 1ull << 20}, {"GB", 1ull << 30}};

// "2MB", as the kernel names it: by the largest unit.
std::string PageSizeName(uint64_t bytes) {
  std::string name;
  for (const auto& [unit, size] : kPageUnits) {
    if (bytes >= size) name = StrCat(bytes / size, unit);
  }
  return name;
}

// 0 for what is none.
uint64_t ParsePageSize(std::string_view name) {
  for (const auto& [unit, size] : kPageUnits) {
    if (!name.ends_with(unit)) continue;
    const std::string_view digits = name.substr(0, name.size() - unit.size());
    uint64_t count = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    const bool whole = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
    return whole && count < (uint64_t{1} << 32) ? count * size : 0;
  }
  return 0;
}

}  // namespace

std::unique_ptr<CgroupBackend> MakeCgroupBackend(CgroupLayout layout) {
  return layout.version == CgroupVersion::kV2 ? MakeCgroupV2(std::move(layout))
                                              : MakeCgroupV1(std::move(layout));
}

Result<uint64_t> ReadNumber(int dir, const char* file) {
  ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(dir, file, kFileLimit));
  return ParseNumber(text);
}

int64_t LimitOr(uint64_t value) {
  return value >= kHugeLimit ? CgroupLimits::kUnlimited : static_cast<int64_t>(value);
}

int64_t QuotaPerPeriod(int64_t quota_us, int64_t period_us) {
  __extension__ using Wide = __int128;
  constexpr auto kPeriod = static_cast<int64_t>(kCpuPeriodMicros);
  return static_cast<int64_t>(Wide{quota_us} * kPeriod / std::max<int64_t>(period_us, 1));
}

Result<std::vector<uint64_t>> ListHugePageSizes(int dir, std::string_view suffix) {
  std::vector<uint64_t> sizes;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(dir, "."));
  for (const std::string_view name : names) {
    if (!name.starts_with(kPageFile) || !name.ends_with(suffix)) continue;
    const size_t length = name.size() - kPageFile.size() - suffix.size();
    const uint64_t size = ParsePageSize(name.substr(kPageFile.size(), length));
    if (size != 0) sizes.push_back(size);
  }
  std::ranges::sort(sizes);
  return sizes;
}

// Pages that are used, and those that are only reserved where the kernel (5.7) tells them apart.
Result<void> ApplyHugePages(int dir, const CgroupLimits& limits, std::string_view suffix) {
  for (const model::HugePageLimit& limit : limits.huge_pages) {
    for (const char* kind : {"", ".rsvd"}) {
      const std::string file = StrCat(kPageFile, PageSizeName(limit.page_bytes), kind, suffix);
      auto written = sys::WriteControlAt(dir, file, std::to_string(limit.limit_bytes));
      // Absent in a cgroup below one of a former agent that did not pass the controller on, too.
      if (!written && written.error().sys_errno() != ENOENT) return written;
    }
  }
  return {};
}

Result<uint64_t> ReadKeyed(int dir, const char* file, std::string_view key) {
  ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(dir, file, kFileLimit));
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t newline = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, newline);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return ParseNumber(line.substr(key.size() + 1));
    }
    rest.remove_prefix(std::min(newline + 1, rest.size()));
  }
  return 0;
}

Result<void> WriteNumber(int dir, const char* file, int64_t value) {
  return sys::WriteControlAt(dir, file, std::to_string(value));
}

Result<size_t> SignalEveryProcess(const Cgroup& cgroup, int signal) {
  // A process id may be reused between reading it and signalling it. So: take pidfds first, read
  // the list again, and signal only what was in it both times; a stranger's pid is not in our
  // cgroup.
  ASSIGN_OR_RETURN(const std::vector<pid_t> first, Processes(cgroup));
  std::vector<std::pair<pid_t, PidFd>> held;
  for (const pid_t pid : first) {
    PidFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (fd.valid()) held.emplace_back(pid, std::move(fd));
  }
  ASSIGN_OR_RETURN(const std::vector<pid_t> second, Processes(cgroup));
  size_t hit = 0;
  for (const auto& [pid, fd] : held) {
    if (!std::ranges::binary_search(second, pid)) continue;
    if (::syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0) == 0) ++hit;
  }
  return hit;
}

}  // namespace holdfast::runtime
