// SPDX-License-Identifier: Apache-2.0
#include "agent/stats/machine_stats.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "holdfast/base/keyed_number.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMostBytes = 4u << 20;

std::string Text(const std::string& path) {
  auto text = sys::ReadFileAt(AT_FDCWD, path, kMostBytes);
  return text ? std::move(*text) : std::string();
}

void ReadMemory(MachineStats& out) {
  const std::string text = Text("/proc/meminfo"), events = Text("/proc/vmstat");
  auto& memory = out.used.memory;
  const MachineMemory read = ParseMachineMemory(text);
  memory.limit = read.total;
  memory.usage = read.usage;
  memory.working_set = read.working_set;
  memory.rss = MeminfoBytes(text, "AnonPages:");
  memory.cache = MeminfoBytes(text, "Cached:");
  memory.mapped_file = MeminfoBytes(text, "Mapped:");
  memory.faults = KeyedNumber(events, "pgfault");
  memory.major_faults = KeyedNumber(events, "pgmajfault");
  out.swap_total = MeminfoBytes(text, "SwapTotal:");
  memory.swap = out.swap_total - std::min(MeminfoBytes(text, "SwapFree:"), out.swap_total);
  memory.pressure = runtime::ParsePressure(Text("/proc/pressure/memory"));
}

}  // namespace

std::vector<InterfaceStats> ParseInterfaces(const std::string& text) {
  std::vector<InterfaceStats> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;  // the two lines of headings
    InterfaceStats one;
    const size_t begin = line.find_first_not_of(' ');
    one.name = line.substr(begin, colon - begin);
    uint64_t skip = 0;
    std::istringstream values(line.substr(colon + 1));
    values >> one.rx_bytes >> one.rx_packets >> one.rx_errors >> one.rx_dropped;
    for (int i = 0; i < 4; ++i) values >> skip;
    values >> one.tx_bytes >> one.tx_packets >> one.tx_errors >> one.tx_dropped;
    if (values && one.name != "lo") out.push_back(std::move(one));
  }
  return out;
}

uint64_t MeminfoBytes(const std::string& text, const std::string& name) {
  return KeyedNumber(text, name) * 1024;
}

MachineMemory ParseMachineMemory(const std::string& text) {
  MachineMemory memory;
  memory.total = MeminfoBytes(text, "MemTotal:");
  for (const char* part : {"AnonPages:", "Cached:", "Buffers:", "SwapCached:"}) {
    memory.usage += MeminfoBytes(text, part);
  }
  memory.working_set = memory.usage - std::min(MeminfoBytes(text, "Inactive(file):"), memory.usage);
  return memory;
}

uint64_t BusyNanos(const std::string& text, uint64_t ticks_per_second) {
  std::istringstream words(text.substr(0, text.find('\n')));
  std::string name;
  uint64_t user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
  words >> name >> user >> nice >> system >> idle >> wait >> irq >> soft >> steal;
  return (user + nice + system + irq + soft + steal) * (1'000'000'000 / ticks_per_second);
}

MachineStats ReadMachineStats() {
  MachineStats out;
  ReadMemory(out);
  const std::string stat = Text("/proc/stat");
  out.used.cpu.nanos = BusyNanos(stat, static_cast<uint64_t>(::sysconf(_SC_CLK_TCK)));
  out.used.cpu.pressure = runtime::ParsePressure(Text("/proc/pressure/cpu"));
  out.used.io.pressure = runtime::ParsePressure(Text("/proc/pressure/io"));
  out.booted = WallTime{std::chrono::seconds(KeyedNumber(stat, "btime"))};
  // "0.00 0.01 0.05 running/all last"
  std::istringstream load(Text("/proc/loadavg"));
  std::string skip;
  char slash = 0;
  uint64_t running = 0;
  load >> skip >> skip >> skip >> running >> slash >> out.used.threads;
  std::istringstream(Text("/proc/sys/kernel/pid_max")) >> out.most_pids;
  out.interfaces = ParseInterfaces(Text("/proc/self/net/dev"));
  return out;
}

std::optional<FsUsage> ReadFsUsage(const std::string& path) {
  struct statvfs fs{};
  if (::statvfs(path.c_str(), &fs) != 0) return std::nullopt;
  FsUsage out;
  out.available = fs.f_bavail * fs.f_frsize;
  out.capacity = fs.f_blocks * fs.f_frsize;
  out.used = (fs.f_blocks - fs.f_bfree) * fs.f_frsize;
  out.inodes = fs.f_files;
  out.inodes_free = fs.f_ffree;
  out.inodes_used = fs.f_files - fs.f_ffree;
  return out;
}

}  // namespace holdfast::agent
