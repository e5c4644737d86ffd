// SPDX-License-Identifier: Apache-2.0
#include "agent/stats/node_rooms.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "agent/stats/machine_stats.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/statistics.h"

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

Room MemoryRoom() {
  const MachineMemory memory = ParseMachineMemory(ReadProc("/proc/meminfo"));
  return {memory.total - std::min(memory.working_set, memory.total), memory.total};
}

// Without a limit of their own they have what the node has.
Room PodsMemoryRoom(const model::Instance& instance, runtime::CgroupNaming naming,
                    const Result<runtime::CgroupLayout>& cgroups) {
  if (!cgroups) return {};
  const auto pods = runtime::ReadMemoryUse(
      *cgroups, StrCat(instance.cgroup_parent, "/", runtime::PodsRootName(naming)));
  if (!pods || pods->limit == UINT64_MAX) return {};
  return {pods->limit - std::min(pods->working_set, pods->limit), pods->limit};
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

struct FsRooms {
  Room bytes, inodes;
};

FsRooms ReadFileSystem(const std::string& path) {
  struct statvfs st{};
  if (::statvfs(path.c_str(), &st) != 0) return {};
  return {{st.f_bavail * st.f_frsize, st.f_blocks * st.f_frsize}, {st.f_favail, st.f_files}};
}

}  // namespace

NodeRooms ReadRooms(const model::Instance& instance, runtime::CgroupNaming naming,
                    const Result<runtime::CgroupLayout>& cgroups) {
  const FsRooms node = ReadFileSystem(instance.root_dir);
  const FsRooms images = ReadFileSystem(instance.ImageDir());
  NodeRooms rooms = {{PressureSignal::kMemory, MemoryRoom()},
                     {PressureSignal::kPodsMemory, PodsMemoryRoom(instance, naming, cgroups)},
                     {PressureSignal::kNodeBytes, node.bytes},
                     {PressureSignal::kNodeInodes, node.inodes},
                     {PressureSignal::kImageBytes, images.bytes},
                     {PressureSignal::kImageInodes, images.inodes},
                     {PressureSignal::kPids, PidRoom()}};
  std::erase_if(rooms, [](const auto& room) { return room.second.total == 0; });
  return rooms;
}

bool IsShort(const Room& room, const model::Threshold& least) {
  return room.left < least.Of(room.total);
}

}  // namespace holdfast::agent
