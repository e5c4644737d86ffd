// SPDX-License-Identifier: Apache-2.0
// bench_start_limit DIR CGROUP_PARENT [net]: the kernel work of one container start with nothing
// around it: no daemon, no plan, no records, no logs, no error texts. For each byte on stdin it
// starts the payload of DIR/root/layer once and prints when the payload's main began, less when it
// was asked, in nanoseconds; with "net" its namespace gets a veth, an address and routes, too. Same
// namespaces, cgroups, mounts, masks, capabilities and seccomp filter as ours.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "runtime/launch/launch.h"
#include "runtime/plan/capabilities.h"
#include "runtime/plan/seccomp.h"
#include "tests/bench/podnet/bare_wiring.h"

namespace holdfast::bench {
namespace {

constexpr const char* kHierarchies[] = {"memory", "cpu", "cpuacct", "pids", "devices"};
constexpr const char* kDeviceRules[] = {"c *:* m",   "b *:* m",    "c 1:3 rwm", "c 1:5 rwm",
                                        "c 1:7 rwm", "c 1:8 rwm",  "c 1:9 rwm", "c 5:0 rwm",
                                        "c 5:2 rwm", "c 136:* rwm"};
constexpr const char* kMasked[] = {"proc/acpi",    "proc/interrupts",   "proc/kcore",
                                   "proc/keys",    "proc/scsi",         "proc/timer_list",
                                   "sys/firmware", "proc/latency_stats"};
constexpr const char* kReadOnly[] = {"proc/bus", "proc/fs", "proc/irq", "proc/sys",
                                     "proc/sysrq-trigger"};
struct Node {
  const char* path;
  unsigned minor;
};
constexpr Node kNodes[] = {
    {"dev/null", 3}, {"dev/zero", 5}, {"dev/full", 7}, {"dev/random", 8}, {"dev/urandom", 9}};

void Must(long result, const char* what) {
  if (result >= 0) return;
  std::perror(what);
  ::_exit(1);
}

struct Setting {
  std::string dir;
  std::vector<int> cgroups;  // kubepods-like parent in each hierarchy
  std::vector<sock_filter> filter;
  std::unique_ptr<sys::Rtnl> node;  // with "net"
};

void WriteAt(int dir, const char* file, const char* text) {
  const int fd = ::openat(dir, file, O_WRONLY | O_CLOEXEC);
  Must(fd, file);
  Must(::write(fd, text, std::char_traits<char>::length(text)), file);
  ::close(fd);
}

void MountRoot(const std::string& scratch, const std::string& layer) {
  const std::string options =
      StrCat("lowerdir=", layer, ",upperdir=", scratch, "/upper,workdir=", scratch, "/work");
  Must(::mount("overlay", layer.c_str(), "overlay", 0, options.c_str()), "overlay");
  Must(::chdir(layer.c_str()), "chdir");
  Must(::mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr), "proc");
  Must(::mount("tmpfs", "dev", "tmpfs", MS_NOSUID, "mode=755,size=65536"), "dev");
  for (const Node& node : kNodes)
    Must(::mknod(node.path, S_IFCHR | 0666, makedev(1, node.minor)), node.path);
  Must(::mknod("dev/tty", S_IFCHR | 0666, makedev(5, 0)), "dev/tty");
  for (const char* dir : {"dev/pts", "dev/shm", "dev/mqueue"}) Must(::mkdir(dir, 0755), dir);
  Must(::mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666"),
       "devpts");
  Must(::mount("tmpfs", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777"), "shm");
  Must(::mount("mqueue", "dev/mqueue", "mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr),
       "mqueue");
  Must(::mount("sysfs", "sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, nullptr),
       "sysfs");
  Must(::mount("tmpfs", "sys/fs/cgroup", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755"),
       "cgroups");
  for (const char* name : kHierarchies) {
    const std::string at = StrCat("sys/fs/cgroup/", name);
    Must(::mkdir(at.c_str(), 0755), name);
    Must(
        ::mount("cgroup", at.c_str(), "cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, name),
        name);
  }
}

void Hide() {
  for (const char* path : kMasked) {
    struct stat st{};
    if (::stat(path, &st) != 0) continue;
    if (S_ISDIR(st.st_mode)) {
      Must(::mount("tmpfs", path, "tmpfs", MS_RDONLY, nullptr), path);
    } else {
      Must(::mount("dev/null", path, nullptr, MS_BIND, nullptr), path);
    }
  }
  for (const char* path : kReadOnly) {
    if (::mount(path, path, nullptr, MS_BIND | MS_REC, nullptr) != 0) continue;
    Must(::mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), path);
  }
}

void LoopbackUp() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP;
  Must(::ioctl(fd, SIOCSIFFLAGS, &request), "lo up");
  ::close(fd);
}

[[noreturn]] void Child(const Setting& setting, const std::string& scratch,
                        const std::vector<int>& cgroups, int go, int out) {
  for (const int dir : cgroups) WriteAt(dir, "tasks", "0");
  char byte = 0;
  Must(::read(go, &byte, 1), "go");
  ::setsid();
  Must(::unshare(CLONE_NEWCGROUP), "cgroup namespace");
  Must(::sethostname("limit", 5), "hostname");
  LoopbackUp();
  MountRoot(scratch, setting.dir + "/root/layer");
  Hide();
  Must(::syscall(SYS_pivot_root, ".", "."), "pivot_root");
  Must(::umount2(".", MNT_DETACH), "old root");
  Must(::chdir("/"), "chdir /");
  for (int capability = 0; capability <= 40; ++capability) {
    if ((runtime::DefaultCapabilities() >> capability & 1) == 0)
      ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  ::dup2(out, STDOUT_FILENO);
  ::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
  Must(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
  sock_fprog program{static_cast<unsigned short>(setting.filter.size()),
                     const_cast<sock_filter*>(setting.filter.data())};
  Must(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp");
  char name[] = "/bin/payload";
  char* argv[] = {name, nullptr};
  char* env[] = {nullptr};
  ::execve(name, argv, env);
  Must(-1, "exec");
  ::_exit(1);
}

std::vector<int> MakeCgroups(const Setting& setting, const std::string& name) {
  std::vector<int> dirs;
  for (size_t i = 0; i < setting.cgroups.size(); ++i) {
    const std::string child = name + "/c";
    Must(::mkdirat(setting.cgroups[i], name.c_str(), 0755), "mkdir pod cgroup");
    Must(::mkdirat(setting.cgroups[i], child.c_str(), 0755), "mkdir cgroup");
    dirs.push_back(::openat(setting.cgroups[i], child.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    Must(dirs.back(), "open cgroup");
  }
  WriteAt(dirs[1], "cpu.shares", "2");
  WriteAt(dirs[4], "devices.deny", "a");
  const int allow = ::openat(dirs[4], "devices.allow", O_WRONLY | O_CLOEXEC);
  for (const char* rule : kDeviceRules) {
    Must(::write(allow, rule, std::char_traits<char>::length(rule)), rule);
  }
  ::close(allow);
  return dirs;
}

void RemoveCgroups(const Setting& setting, const std::string& name) {
  for (const int parent : setting.cgroups) {
    while (::unlinkat(parent, (name + "/c").c_str(), AT_REMOVEDIR) != 0 && errno == EBUSY)
      ::usleep(100);
    while (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno == EBUSY) ::usleep(100);
  }
}

long Nanos() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

void Wire(sys::Rtnl& node, long pid, const std::string& name) {
  const std::string path = StrCat("/proc/", pid, "/ns/net");
  const int netns = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  Must(netns, path.c_str());
  if (auto wired = WireBare(node, netns, name); !wired) {
    std::fprintf(stderr, "limit: %s\n", wired.error().message().c_str());
    ::_exit(1);
  }
  ::close(netns);
}

long StartOnce(const Setting& setting, int number) {
  const std::string name = StrCat("limit-", number);
  const std::string scratch = StrCat(setting.dir, "/root/", name);
  int go[2], out[2];
  const long begin = Nanos();
  Must(::mkdir(scratch.c_str(), 0700), "scratch");
  Must(::mkdir((scratch + "/upper").c_str(), 0755), "upper");
  Must(::mkdir((scratch + "/work").c_str(), 0755), "work");
  const std::vector<int> cgroups = MakeCgroups(setting, name);
  Must(::pipe2(go, O_CLOEXEC), "pipe");
  Must(::pipe2(out, O_CLOEXEC), "pipe");
  clone_args arguments{};
  arguments.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  arguments.exit_signal = SIGCHLD;
  const long pid = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  Must(pid, "clone3");
  if (pid == 0) Child(setting, scratch, cgroups, go[0], out[1]);
  if (setting.node) Wire(*setting.node, pid, name);
  Must(::write(go[1], "g", 1), "go");
  ::close(out[1]);
  char line[64] = {};
  Must(::read(out[0], line, sizeof line - 1), "payload");
  const long took = std::atol(line) - begin;
  ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
  for (const int fd : {go[0], go[1], out[0]}) ::close(fd);
  for (const int fd : cgroups) ::close(fd);
  RemoveCgroups(setting, name);
  std::filesystem::remove_all(scratch);
  return took;
}

int Main(const std::string& dir, const std::string& parent, bool net) {
  Setting setting;
  if (net) {
    auto node = sys::Rtnl::Open();
    if (!node) return 1;
    setting.node = std::make_unique<sys::Rtnl>(std::move(*node));
  }
  setting.dir = dir;
  for (const char* name : kHierarchies) {
    const std::string path = StrCat("/sys/fs/cgroup/", name, parent);
    setting.cgroups.push_back(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    Must(setting.cgroups.back(), "this program is for cgroup v1");
  }
  for (const model::BpfInstruction& one :
       runtime::DefaultSeccompProgram(runtime::DefaultCapabilities())) {
    setting.filter.push_back({one.code, one.jt, one.jf, one.k});
  }
  std::filesystem::create_directories(dir + "/root/layer/sys/fs/cgroup");
  const std::vector<std::string> visible = {dir + "/root"};
  if (auto entered = runtime::EnterLauncherMountNamespace(visible); !entered) {
    std::fprintf(stderr, "limit: %s\n", entered.error().message().c_str());
    return 1;
  }
  char byte = 0;
  for (int number = 0; ::read(STDIN_FILENO, &byte, 1) == 1; ++number) {
    std::printf("%ld\n", StartOnce(setting, number));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  return argc < 3 ? 2 : holdfast::bench::Main(argv[1], argv[2], argc == 4);
}
