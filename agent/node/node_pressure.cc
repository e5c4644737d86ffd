// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_pressure.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "holdfast/base/keyed_number.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr size_t kProcLimit = 1u << 20;

std::string ReadProc(const char* path) {
  auto text = sys::ReadFileAt(AT_FDCWD, path, kProcLimit);
  return text ? std::move(*text) : std::string();
}

uint64_t NumberOf(std::string_view text) {
  uint64_t value = 0;
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// As a kubelet counts for the whole node: what is used is what is not free, less the page cache that nobody uses.
Room MemoryRoom() {
  Room room;
  const std::string text = ReadProc("/proc/meminfo");
  room.total = KeyedNumber(text, "MemTotal:") * 1024;
  room.left = (KeyedNumber(text, "MemFree:") + KeyedNumber(text, "Inactive(file):")) * 1024;
  return room;
}

// "0.50 0.40 0.30 2/345 6789": 345 threads.
Room PidRoom() {
  Room room;
  room.total = std::min(NumberOf(ReadProc("/proc/sys/kernel/pid_max")),
                        NumberOf(ReadProc("/proc/sys/kernel/threads-max")));
  const std::string load = ReadProc("/proc/loadavg");
  const size_t slash = load.find('/');
  if (slash == std::string::npos) return {};
  const uint64_t used = NumberOf(std::string_view(load).substr(slash));
  room.left = room.total > used ? room.total - used : 0;
  return room;
}

void ReadFileSystem(const std::string& path, Room& bytes, Room& inodes) {
  struct statvfs st{};
  if (::statvfs(path.c_str(), &st) != 0) return;
  bytes = {st.f_bavail * st.f_frsize, st.f_blocks * st.f_frsize};
  inodes = {st.f_favail, st.f_files};
}

bool IsShort(const Room& room, const model::Threshold& threshold) {
  return room.total > 0 && room.left < threshold.Of(room.total);
}

}  // namespace

NodeRooms ReadRooms(const AgentConfig& config) {
  NodeRooms rooms;
  rooms.memory = MemoryRoom();
  rooms.pids = PidRoom();
  ReadFileSystem(config.instance.root_dir, rooms.node_bytes, rooms.node_inodes);
  ReadFileSystem(config.instance.ImageDir(), rooms.image_bytes, rooms.image_inodes);
  return rooms;
}

NodePressure PressureOf(const NodeRooms& rooms, const PressureThresholds& node,
                        const model::DiskReserve& images) {
  NodePressure pressure;
  pressure.memory = IsShort(rooms.memory, node.memory);
  pressure.disk =
      IsShort(rooms.node_bytes, node.disk.bytes) || IsShort(rooms.node_inodes, node.disk.inodes) ||
      IsShort(rooms.image_bytes, images.bytes) || IsShort(rooms.image_inodes, images.inodes);
  pressure.pids = IsShort(rooms.pids, node.pids);
  return pressure;
}

NodePressure SteadyPressure::Show(const NodePressure& now, BootTime at) {
  return {Hold(now.memory, at, memory_), Hold(now.disk, at, disk_), Hold(now.pids, at, pids_)};
}

bool SteadyPressure::Hold(bool now, BootTime at, Last& last) {
  if (now) last = {true, at};
  return now || (last.ever && at - last.at < kHold);
}

}  // namespace holdfast::agent
