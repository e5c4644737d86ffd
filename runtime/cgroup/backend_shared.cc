// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/backend_internal.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kFileLimit = 256 * 1024;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

uint64_t ParseNumber(std::string_view text) {
  uint64_t value = 0;
  if (text.starts_with("max")) return kNoLimit;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
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
