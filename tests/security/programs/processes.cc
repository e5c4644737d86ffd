// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <grp.h>
#include <linux/tiocl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "attacker.h"

namespace attacker {

namespace {

void PrintStatus() {
  std::ifstream status("/proc/self/status");
  std::string seccomp;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Cap")) std::cout << ' ' << line.substr(line.find('\t') + 1);
    if (line.starts_with("Seccomp:") || line.starts_with("NoNewPrivs:")) seccomp += line.back();
  }
  std::cout << "\nno-new-privileges-and-seccomp " << seccomp;
}

}  // namespace

int Fork(const Words& words) {
  if (words.empty()) return 2;
  const long most = std::stol(words[0]);
  std::vector<pid_t> children;
  std::string stopped = "at-its-own-limit";
  while (static_cast<long>(children.size()) < most) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) ::pause();
    }
    if (child < 0) {
      stopped = Outcome(-1);
      break;
    }
    children.push_back(child);
  }
  for (const pid_t child : children) ::kill(child, SIGKILL);
  while (::wait(nullptr) > 0) {
  }
  std::cout << "done " << children.size() << ' ' << stopped << std::endl;
  return 0;
}

int PushBack(const Words& words) {
  if (words.empty()) return 2;
  for (int fd = 0; fd < 3; ++fd) {
    long result = 0;
    for (char c : words[0] + "\n") result = std::min<long>(result, ::ioctl(fd, TIOCSTI, &c));
    std::cout << "TIOCSTI " << fd << ' ' << Outcome(result) << '\n';
    char paste = TIOCL_PASTESEL;
    std::cout << "TIOCLINUX " << fd << ' ' << Outcome(::ioctl(fd, TIOCLINUX, &paste)) << '\n';
  }
  std::cout << "done" << std::endl;
  return 0;
}

int Identity() {
  std::cout << "uid " << ::getuid() << "\ngid " << ::getgid() << "\ngroups";
  gid_t groups[1024];
  const int count = ::getgroups(1024, groups);
  std::sort(groups, groups + std::max(count, 0));
  for (int i = 0; i < count; ++i) std::cout << ' ' << groups[i];
  std::cout << "\ncapabilities";
  PrintStatus();
  std::cout << "\ndescriptors";
  DIR* folder = ::opendir("/proc/self/fd");
  while (const dirent* entry = folder != nullptr ? ::readdir(folder) : nullptr) {
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != ::dirfd(folder)) {
      std::cout << ' ' << entry->d_name;
    }
  }
  char cwd[4096];
  std::cout << "\ncwd " << (::getcwd(cwd, sizeof cwd) != nullptr ? cwd : "?") << "\ndone"
            << std::endl;
  return 0;
}

}  // namespace attacker
