// SPDX-License-Identifier: Apache-2.0
// System calls, devices and socket families. The arguments are such that a call which gets past its
// guards fails anyway, with an errno that is neither EPERM nor ENOSYS, and harms nobody.
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>

#include "attacker.h"

namespace attacker {
namespace {

struct Call {
  const char* name;
  long number;
  unsigned long arguments[5];
};

const char* const kRoot = "/";
const char* const kNothing = "/nowhere";

unsigned long Text(const char* text) { return reinterpret_cast<unsigned long>(text); }

const Call kCalls[] = {
    {"mount", SYS_mount, {0, Text(kNothing), 0, MS_BIND, 0}},
    {"mount-remount", SYS_mount, {0, Text("/proc/sys"), 0, MS_REMOUNT | MS_BIND, 0}},
    {"umount2", SYS_umount2, {Text("/proc/sys"), MNT_DETACH}},
    {"pivot_root", SYS_pivot_root, {Text(kNothing), Text(kNothing)}},
    {"open_tree-clone", SYS_open_tree, {0, Text(kRoot), 1}},
    {"move_mount", SYS_move_mount, {~0ul, Text(kNothing), ~0ul, Text(kNothing), 0}},
    {"fsopen", SYS_fsopen, {Text("proc"), 0}},
    {"fsconfig", SYS_fsconfig, {~0ul, 0, 0, 0, 0}},
    {"fsmount", SYS_fsmount, {~0ul, 0, 0}},
    {"fspick", SYS_fspick, {~0ul, Text(kRoot), 0}},
    {"mount_setattr", SYS_mount_setattr, {~0ul, Text(kRoot), 0, 0, 0}},
    {"unshare-user", SYS_unshare, {CLONE_NEWUSER}},
    {"unshare-mount", SYS_unshare, {CLONE_NEWNS}},
    {"unshare-net", SYS_unshare, {CLONE_NEWNET}},
    {"unshare-cgroup", SYS_unshare, {CLONE_NEWCGROUP}},
    {"setns", SYS_setns, {~0ul, 0}},
    {"clone-user", SYS_clone, {CLONE_NEWUSER | SIGCHLD}},
    {"clone-mount", SYS_clone, {CLONE_NEWNS | SIGCHLD}},
    {"clone-cgroup", SYS_clone, {CLONE_NEWCGROUP | SIGCHLD}},
    {"clone3", SYS_clone3, {0, 0}},
    {"keyctl", SYS_keyctl, {KEYCTL_GET_KEYRING_ID, ~0ul, 0}},
    {"add_key", SYS_add_key, {Text("user"), Text("x"), Text("x"), 1, ~0ul}},
    {"request_key", SYS_request_key, {Text("user"), Text("x"), 0, 0}},
    {"userfaultfd", SYS_userfaultfd, {0}},
    {"io_uring_setup", SYS_io_uring_setup, {1, 0}},
    {"io_uring_enter", SYS_io_uring_enter, {~0ul, 0, 0, 0, 0}},
    {"io_uring_register", SYS_io_uring_register, {~0ul, 0, 0, 0}},
    {"bpf", SYS_bpf, {5, 0, 0}},
    {"perf_event_open", SYS_perf_event_open, {0, 0, ~0ul, ~0ul, 0}},
    {"kexec_load", SYS_kexec_load, {0, 99, 0, 0}},
    {"kexec_file_load", SYS_kexec_file_load, {~0ul, ~0ul, 0, 0, 0}},
    {"init_module", SYS_init_module, {0, 0, 0}},
    {"finit_module", SYS_finit_module, {~0ul, Text(""), 0}},
    {"delete_module", SYS_delete_module, {Text("no_such_module"), O_NONBLOCK}},
    {"open_by_handle_at", SYS_open_by_handle_at, {~0ul, 0, 0}},
    {"reboot", SYS_reboot, {0, 0, 0, 0}},
    {"swapon", SYS_swapon, {Text(kNothing), 0}},
    {"swapoff", SYS_swapoff, {Text(kNothing)}},
    {"acct", SYS_acct, {Text(kNothing)}},
    {"quotactl", SYS_quotactl, {~0ul, 0, 0, 0}},
    {"syslog", SYS_syslog, {3, 0, 0}},
    {"settimeofday", SYS_settimeofday, {0, 0}},
    {"clock_settime", SYS_clock_settime, {99, 0}},
    {"sethostname", SYS_sethostname, {Text("x"), ~0ul}},
    {"setdomainname", SYS_setdomainname, {Text("x"), ~0ul}},
    {"fanotify_init", SYS_fanotify_init, {0x40000000, 0}},
    {"kcmp", SYS_kcmp, {1, 1, 99, 0, 0}},
    {"lookup_dcookie", 212, {0, 0, 0}},
    {"move_pages", SYS_move_pages, {1, 0, 0, 0, 0}},
    {"mbind", SYS_mbind, {1, 0, 99, 0, 0}},
    {"set_mempolicy", SYS_set_mempolicy, {99, 0, 0}},
    {"personality-no-randomisation", SYS_personality, {0x0040000}},
    {"ptrace-init", SYS_ptrace, {16 /* ATTACH */, 0, 0, 0}},
    {"vhangup", SYS_vhangup, {}},
#ifdef __x86_64__
    {"iopl", SYS_iopl, {3}},
    {"ioperm", SYS_ioperm, {0x80, 1, 1}},
    {"modify_ldt", SYS_modify_ldt, {99, 0, 0}},
    {"ustat", SYS_ustat, {0, 0}},
    {"sysfs", SYS_sysfs, {99}},
    {"uselib", SYS_uselib, {Text(kNothing)}},
    {"x32-mount", 0x40000000 | SYS_mount, {0, Text(kNothing), 0, MS_BIND, 0}},
#endif
};

// In a child: what a call does to its caller, even success, ends with it.
std::string InChild(long (*act)(const Call&), const Call& call) {
  int ends[2];
  if (::pipe(ends) != 0) return "pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(5);
    const std::string outcome = Outcome(act(call));
    [[maybe_unused]] const ssize_t n = ::write(ends[1], outcome.data(), outcome.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  char text[64] = {};
  const ssize_t size = ::read(ends[0], text, sizeof text - 1);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return size > 0 ? text : "killed";
}

long Make(const Call& call) {
  const unsigned long* a = call.arguments;
  return ::syscall(call.number, a[0], a[1], a[2], a[3], a[4], 0);
}

#ifdef __x86_64__
// The 32-bit entry of a 64-bit program: own numbers, the same filter.
long MakeInt80(const Call& call) {
  long result = call.number;
  __asm__ volatile("int $0x80"
                   : "+a"(result)
                   : "b"(call.arguments[0]), "c"(call.arguments[1]), "d"(call.arguments[2])
                   : "memory", "r8", "r9", "r10", "r11");
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}

const Call kCalls32[] = {
    {"i386-mount", 21, {0, 0, 0}},
    {"i386-umount2", 52, {0, 0}},
    {"i386-unshare-user", 310, {CLONE_NEWUSER}},
    {"i386-keyctl", 288, {0, ~0ul, 0}},
    {"i386-bpf", 357, {5, 0, 0}},
    {"i386-io_uring_setup", 425, {1, 0, 0}},
    {"i386-userfaultfd", 374, {0}},
    {"i386-socket-alg", 359, {38, SOCK_SEQPACKET, 0}},
    {"i386-socket-vsock", 359, {40, SOCK_STREAM, 0}},
    {"i386-perf_event_open", 336, {0, 0, ~0ul}},
    {"i386-open_tree", 428, {0, 0, 1}},
    {"i386-clone3", 435, {0, 0}},
};
#endif

}  // namespace

int Calls() {
  for (const Call& call : kCalls) std::cout << call.name << ' ' << InChild(Make, call) << '\n';
#ifdef __x86_64__
  for (const Call& call : kCalls32) {
    std::cout << call.name << ' ' << InChild(MakeInt80, call) << '\n';
  }
#endif
  std::cout << "done" << std::endl;
  return 0;
}

int Devices() {
  int tried = 0;
  for (const mode_t type : {S_IFCHR, S_IFBLK}) {
    for (unsigned major = 0; major < 512; ++major) {
      for (unsigned minor = 0; minor < 16; ++minor) {
        const char* path = "/attacker-device";
        ++tried;
        if (::mknod(path, type | 0600, ::makedev(major, minor)) != 0) continue;
        const int fd = ::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        const std::string outcome = Outcome(fd);
        if (outcome != "EPERM") {
          std::cout << (type == S_IFCHR ? "c " : "b ") << major << ':' << minor << ' ' << outcome
                    << '\n';
        }
        if (fd >= 0) ::close(fd);
        ::unlink(path);
      }
    }
  }
  std::cout << "done " << tried << std::endl;
  return 0;
}

int Families() {
  for (int family = 0; family < 64; ++family) {
    const int fd = ::socket(family, SOCK_RAW, 0);
    std::string outcome = Outcome(fd);
    if (fd >= 0) ::close(fd);
    for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}) {
      const int other = ::socket(family, type, 0);
      if (other < 0) continue;
      outcome = "ok";
      ::close(other);
    }
    std::cout << family << ' ' << outcome << '\n';
  }
  std::cout << "done" << std::endl;
  return 0;
}

}  // namespace attacker
