// SPDX-License-Identifier: Apache-2.0
// Runs inside a container and prints what it sees, one fact per line, "key value". The first
// argument chooses what to do:
//   facts            ids, capabilities, limits, namespaces, descriptors, environment, cwd
//   mounts           /proc/self/mountinfo
//   exit N           ends with N
//   sleep            until a signal
//   cat FILE…        their content
//   write FILE TEXT  writes, prints "written" or the error
//   stat FILE…       type and device number
//   tty              whether 0 is a terminal, and its size
//   syscalls         one line "name errno" for calls that a seccomp profile may refuse
//   echo TEXT…
//   stalk FILE       catches every process that appears, until SIGTERM: stalker.h
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>

#include "tests/support/probe/stalker.h"

extern char** environ;

namespace {

void PrintStatusFields() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    for (const char* key : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
                            "Seccomp", "SigBlk", "SigIgn", "Umask", "Uid", "Gid"}) {
      const std::string prefix = std::string(key) + ":";
      if (line.starts_with(prefix)) {
        std::cout << key << ' ' << line.substr(prefix.size() + 1) << '\n';
      }
    }
  }
}

void PrintNamespaces() {
  for (const char* name : {"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"}) {
    char target[64] = {};
    const std::string path = std::string("/proc/self/ns/") + name;
    if (::readlink(path.c_str(), target, sizeof target - 1) > 0) {
      std::cout << "ns." << name << ' ' << target << '\n';
    }
  }
}

void PrintDescriptors() {
  DIR* dir = ::opendir("/proc/self/fd");
  if (dir == nullptr) return;
  const int own = ::dirfd(dir);
  std::cout << "fds";
  while (const dirent* entry = ::readdir(dir)) {
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != own)
      std::cout << ' ' << entry->d_name;
  }
  std::cout << '\n';
  ::closedir(dir);
}

void PrintLimits() {
  const struct {
    const char* name;
    __rlimit_resource_t resource;
  } limits[] = {{"nofile", RLIMIT_NOFILE}, {"core", RLIMIT_CORE}, {"nproc", RLIMIT_NPROC}};
  for (const auto& limit : limits) {
    rlimit value{};
    ::getrlimit(limit.resource, &value);
    std::cout << "rlimit." << limit.name << ' ' << value.rlim_cur << ' ' << value.rlim_max << '\n';
  }
}

int Facts() {
  std::cout << "uid " << ::getuid() << "\ngid " << ::getgid() << "\npid " << ::getpid() << '\n';
  gid_t groups[256];
  const int count = ::getgroups(256, groups);
  std::cout << "groups";
  for (int i = 0; i < count; ++i) std::cout << ' ' << groups[i];
  std::cout << '\n';
  PrintStatusFields();
  PrintNamespaces();
  PrintDescriptors();
  PrintLimits();
  std::ifstream oom("/proc/self/oom_score_adj");
  std::string score;
  oom >> score;
  std::cout << "oom " << score << '\n';
  char cwd[4096] = {};
  std::cout << "cwd " << (::getcwd(cwd, sizeof cwd) != nullptr ? cwd : "?") << '\n';
  utsname uts{};
  ::uname(&uts);
  std::cout << "hostname " << uts.nodename << '\n';
  std::cout << "nice " << ::getpriority(PRIO_PROCESS, 0) << '\n';
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } scheduling{};  // struct sched_attr
  ::syscall(SYS_sched_getattr, 0, &scheduling, sizeof scheduling, 0);
  std::cout << "policy " << scheduling.policy << '\n';
  std::cout << "policy-flags " << scheduling.flags << '\n';
  std::cout << "slice " << scheduling.runtime << '\n';
  std::cout << "personality " << ::personality(0xffffffff) << '\n';
  std::cout << "timer-slack " << ::prctl(PR_GET_TIMERSLACK) << '\n';
  std::cout << "huge-pages-off " << ::prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) << '\n';
  std::cout << "sid " << (::getsid(0) == ::getpid() ? "own" : "other") << '\n';
  const int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  if (socket >= 0 && ::ioctl(socket, SIOCGIFFLAGS, &request) == 0) {
    std::cout << "lo " << ((request.ifr_flags & IFF_UP) != 0 ? "up" : "down") << '\n';
  }
  for (char** entry = environ; *entry != nullptr; ++entry) std::cout << "env " << *entry << '\n';
  return 0;
}

int Cat(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i]);
    if (!file) {
      std::cout << argv[i] << ": " << std::strerror(errno) << '\n';
    } else {
      std::cout << file.rdbuf();
    }
  }
  return 0;
}

int Write(const char* path, const char* text) {
  const int fd = ::open(path, O_WRONLY | O_CREAT, 0644);
  if (fd < 0 || ::write(fd, text, std::strlen(text)) < 0) {
    std::cout << path << ' ' << std::strerror(errno) << '\n';
  } else {
    std::cout << path << " written\n";
  }
  return 0;
}

int Stat(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    struct stat st{};
    std::cout << argv[i] << ' ';
    if (::lstat(argv[i], &st) != 0) {
      std::cout << std::strerror(errno) << '\n';
      continue;
    }
    const char* type = S_ISDIR(st.st_mode)   ? "dir"
                       : S_ISCHR(st.st_mode) ? "char"
                       : S_ISBLK(st.st_mode) ? "block"
                       : S_ISLNK(st.st_mode) ? "link"
                                             : "file";
    std::cout << type << ' ' << ::major(st.st_rdev) << ':' << ::minor(st.st_rdev) << ' ' << std::oct
              << (st.st_mode & 07777) << std::dec << ' ' << st.st_uid << ':' << st.st_gid << '\n';
  }
  return 0;
}

void PrintCall(const char* name, long result) {
  std::cout << name << ' ' << (result < 0 ? ::strerrorname_np(errno) : "ok") << '\n';
}

int Syscalls() {
  PrintCall("unshare_user", ::syscall(SYS_unshare, CLONE_NEWUSER));
  PrintCall("clone3", ::syscall(SYS_clone3, nullptr, 0));
  PrintCall("clone_newuser", ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
  PrintCall("socket_alg", ::socket(38, SOCK_SEQPACKET, 0));
  PrintCall("socket_vsock", ::socket(40, SOCK_STREAM, 0));
  PrintCall("socket_inet", ::socket(AF_INET, SOCK_STREAM, 0));
  PrintCall("socket_netlink", ::socket(AF_NETLINK, SOCK_RAW, 0));
  PrintCall("io_uring_setup", ::syscall(SYS_io_uring_setup, 1, nullptr));
  PrintCall("keyctl", ::syscall(SYS_keyctl, 0, 0, 0, 0, 0));
  PrintCall("bpf", ::syscall(SYS_bpf, 0, nullptr, 0));
  PrintCall("userfaultfd", ::syscall(SYS_userfaultfd, 0));
  PrintCall("mount", ::syscall(SYS_mount, nullptr, nullptr, nullptr, 0, nullptr));
  PrintCall("sethostname", ::syscall(SYS_sethostname, "x", 1));
  PrintCall("getppid", ::getppid());
  return 0;
}

int Tty() {
  winsize size{};
  ::ioctl(0, TIOCGWINSZ, &size);
  char name[256] = {};
  [[maybe_unused]] const ssize_t n = ::readlink("/proc/self/fd/0", name, sizeof name - 1);
  std::cout << "tty " << ::isatty(0) << ' ' << size.ws_row << 'x' << size.ws_col << ' ' << name
            << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "facts";
  if (what == "facts") return Facts();
  if (what == "exit" && argc > 2) return std::atoi(argv[2]);
  if (what == "cat") return Cat(argc, argv);
  if (what == "stat") return Stat(argc, argv);
  if (what == "write" && argc > 3) return Write(argv[2], argv[3]);
  if (what == "tty") return Tty();
  if (what == "syscalls") return Syscalls();
  if (what == "sleep") {
    for (;;) ::pause();
  }
  if (what == "mounts") {
    char self[] = "/proc/self/mountinfo";
    char* files[] = {argv[0], argv[0], self};
    return Cat(3, files);
  }
  if (what == "echo") {
    for (int i = 2; i < argc; ++i) std::cout << argv[i] << '\n';
    return 0;
  }
  if (what == "stalk" && argc > 2) return Stalk(argv[2]);
  std::cerr << "unknown: " << what << '\n';
  return 99;
}
