// SPDX-License-Identifier: Apache-2.0
#include "tests/support/probe/stalker.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <set>

namespace {

volatile sig_atomic_t stop = 0;

std::string Read(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char text[4096];
  const ssize_t n = fd < 0 ? -1 : ::read(fd, text, sizeof text);
  if (fd >= 0) ::close(fd);
  return n <= 0 ? std::string() : std::string(text, static_cast<size_t>(n));
}

std::string Field(const std::string& status, const std::string& key) {
  const size_t at = status.find("\n" + key + ":\t");
  if (at == std::string::npos) return {};
  const size_t from = at + key.size() + 3;
  return status.substr(from, status.find('\n', from) - from);
}

uint64_t Permitted(const std::string& status) {
  return std::strtoull(Field(status, "CapPrm").c_str(), nullptr, 16);
}

class Stalker {
 public:
  explicit Stalker(std::string secret) : secret_(std::move(secret)) {
    const std::string status = Read("/proc/self/status");
    permitted_ = Permitted(status);
    filtered_ = Field(status, "Seccomp") == "2";
    for (const int pid : Processes()) known_.insert(pid);
  }
  void Look() {
    for (const int pid : Processes()) {
      if (!known_.insert(pid).second) continue;
      ++seen_;
      Catch("/proc/" + std::to_string(pid), pid);
    }
  }
  void Report() const {
    std::cout << "seen " << seen_ << "\nunborn " << unborn_ << "\nopened " << opened_ << "\nexcess "
              << excess_ << "\nunfiltered " << unfiltered_ << std::endl;
  }

 private:
  static std::set<int> Processes() {
    std::set<int> pids;
    DIR* proc = ::opendir("/proc");
    if (proc == nullptr) return pids;
    while (const dirent* entry = ::readdir(proc)) {
      if (const int pid = std::atoi(entry->d_name); pid > 0) pids.insert(pid);
    }
    ::closedir(proc);
    return pids;
  }

  void Tell(int& count, const std::string& what) {
    if (++count <= 5) std::cout << "!" << what << std::endl;
  }

  void TryOpen(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ::close(fd);
    Tell(opened_, "opened " + path);
  }

  // Held still it cannot become the program while it is looked at.
  void Catch(const std::string& proc, int pid) {
    const bool held = ::ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 &&
                      ::ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0 &&
                      ::waitpid(pid, nullptr, __WALL) == pid;
    Inspect(proc);
    // One that has ended meanwhile stays a zombie to its parent until its tracer has waited for it.
    if (held && ::ptrace(PTRACE_DETACH, pid, 0, 0) != 0) ::waitpid(pid, nullptr, __WALL);
  }

  void Inspect(const std::string& proc) {
    char exe[4096] = {};
    const std::string status = Read(proc + "/status");
    // Not readable: one that may not even be looked at, which the container's programs may be.
    if (::readlink((proc + "/exe").c_str(), exe, sizeof exe - 1) <= 0 && errno != EACCES) return;
    if (std::string(exe) == "/bin/probe" || status.empty()) return;
    ++unborn_;
    if ((Permitted(status) & ~permitted_) != 0) {
      Tell(excess_, "capabilities " + Field(status, "CapPrm"));
    }
    if (filtered_ && Field(status, "Seccomp") == "0") Tell(unfiltered_, "no filter");
    TryOpen(proc + "/root" + secret_);
    TryOpen(proc + "/cwd/../../../../../../../../../.." + secret_);
    for (int fd = 0; fd < 64; ++fd) {
      const std::string path = proc + "/fd/" + std::to_string(fd);
      struct stat st{};
      if (::stat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) continue;
      Tell(opened_, "directory behind descriptor " + std::to_string(fd));
      TryOpen(path + "/../../../../../../../../../.." + secret_);
    }
  }

  const std::string secret_;
  uint64_t permitted_ = 0;
  bool filtered_ = false;
  std::set<int> known_;
  int seen_ = 0;
  int unborn_ = 0;
  int opened_ = 0;
  int excess_ = 0;
  int unfiltered_ = 0;
};

}  // namespace

int Stalk(const char* secret) {
  ::signal(SIGTERM, [](int) { stop = 1; });
  Stalker stalker{secret};
  std::cout << "." << std::endl;
  while (stop == 0) stalker.Look();
  stalker.Report();
  return 0;
}
