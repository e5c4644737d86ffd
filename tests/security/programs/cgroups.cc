// SPDX-License-Identifier: Apache-2.0
// CVE-2022-0492: a mounted cgroup v1 hierarchy whose root is the node's shows release_agent, and
// what is written there runs as root on the node. It is opened here and never written. In a mounted
// cgroup2 the root is the container's own cgroup: its limits are the node's matter (nsdelegate).
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "attacker.h"

namespace attacker {
namespace {

Words Hierarchies() {
  Words names;
  std::ifstream table("/proc/self/cgroup");
  for (std::string line; std::getline(table, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string name = line.substr(first + 1, second - first - 1);
    if (!name.empty()) names.push_back(name);
  }
  std::ifstream controllers("/proc/cgroups");
  for (std::string line; std::getline(controllers, line);) {
    std::string name;
    if (line.starts_with('#') || !(std::istringstream(line) >> name)) continue;
    bool known = false;
    for (const std::string& other : names) known = known || other.find(name) != std::string::npos;
    if (!known) names.push_back(name);
  }
  return names;
}

void RaiseLimits(const std::string& place) {
  for (const char* name : {"pids.max", "memory.max", "memory.swap.max", "cpu.max"}) {
    const int fd = ::open((place + '/' + name).c_str(), O_WRONLY | O_CLOEXEC);
    const long raised = fd < 0 ? fd : ::write(fd, "max", 3);
    std::cout << ' ' << name << ' ' << Outcome(raised);
    if (fd >= 0) ::close(fd);
  }
}

void Try(const std::string& type, const std::string& name) {
  const std::string place = "/tmp/attacker-cgroup";
  ::mkdir(place.c_str(), 0700);
  const int mounted = ::mount("none", place.c_str(), type.c_str(), 0, name.c_str());
  std::cout << type << ':' << name << ' ' << (mounted == 0 ? "mounted" : Outcome(mounted));
  if (mounted == 0) {
    const int fd = ::open((place + "/release_agent").c_str(), O_WRONLY | O_CLOEXEC);
    std::cout << " release_agent " << Outcome(fd);
    if (fd >= 0) ::close(fd);
    if (type == "cgroup2") RaiseLimits(place);
    ::umount2(place.c_str(), MNT_DETACH);
  }
  std::cout << '\n';
}

}  // namespace

int MountCgroups() {
  for (const std::string& name : Hierarchies()) Try("cgroup", name);
  Try("cgroup2", "");
  std::cout << "done" << std::endl;
  return 0;
}

}  // namespace attacker
