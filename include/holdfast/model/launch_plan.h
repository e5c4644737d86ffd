// SPDX-License-Identifier: Apache-2.0
// What the launcher is told, as pure data: LaunchPlan (a container), ExecPlan (a further process in
// a running container) and SandboxPlan (the namespaces that the containers of a pod share).
//
// A plan never holds a descriptor. It names descriptors by FdIndex: the position in the list that
// is sent beside it (SCM_RIGHTS). The sender keeps its descriptors; the launcher's copies are the
// launcher's. Paths of the host occur in RootPlan only and are paths of our own store as the
// launcher's mount namespace shows them; every other path is relative to the container's root.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace holdfast::model {

using FdIndex = int32_t;
inline constexpr FdIndex kNoFd = -1;

// `count` ids from `inside` (in the user namespace) are `outside` (the launcher's).
struct IdMapEntry {
  uint32_t inside = 0;
  uint32_t outside = 0;
  uint32_t count = 0;
  bool operator==(const IdMapEntry&) const = default;
};

// kNoFd means "the launcher's own", which is the host's, unless a new one is asked for. The mount
// namespace of a container is always new.
struct NamespacePlan {
  FdIndex network = kNoFd;
  FdIndex ipc = kNoFd;
  FdIndex uts = kNoFd;
  FdIndex user = kNoFd;  // the pod's, hostUsers: false; it owns the others
  FdIndex pid = kNoFd;   // the pod's, shareProcessNamespace: true
  bool new_pid = true;   // not together with `pid`; both absent: the host's
  bool new_cgroup = true;
  bool new_time = false;
  bool operator==(const NamespacePlan&) const = default;
};

// Directories of the container's cgroup, opened by whoever made it (O_PATH is not enough for
// `unified`: O_RDONLY | O_DIRECTORY).
struct CgroupPlan {
  FdIndex unified = kNoFd;      // cgroup2: CLONE_INTO_CGROUP, the process is never elsewhere
  std::vector<FdIndex> attach;  // v1: the child enters them by itself
  bool operator==(const CgroupPlan&) const = default;
};

// An overlay of layers, all absolute paths as the launcher sees them.
struct RootPlan {
  std::vector<std::string> layers;  // lowest first, at least one
  std::string scratch;              // gets `upper` and `work`; exists
  bool read_only = false;
  uint32_t owner = 0;  // uid and gid that root has on the host; other than 0 with `user` only
  // Bidirectional or HostToContainer volumes do not need it: propagation is per mount.
  bool operator==(const RootPlan&) const = default;
};

// One mount, in order. Destinations are resolved inside the root; a missing one is made (a file
// when the source is none), except kProc, kSysfs, kDev, whose destination must be an ordinary
// directory.
struct MountPlan {
  enum class Kind : uint8_t {
    kProc,  // `source`: SandboxFds::proc, when the pod shares a pid namespace; else none
    kSysfs,
    kDev,  // tmpfs for /dev
    kDevpts,
    kMqueue,
    kTmpfs,
    kCgroup2,  // the unified hierarchy, rooted in the container's cgroup
    kCgroup1,  // `options` is "cpu,cpuacct" or "name=systemd"
    kBind,     // `source`: detached mount (open_tree CLONE); used up
    kShared,   // `source`: SandboxFds::shm; stays usable for further containers
  };
  enum class Propagation : uint8_t { kPrivate, kSlave, kShared };
  Kind kind = Kind::kBind;
  FdIndex source = kNoFd;
  std::string destination;  // absolute in the container
  std::string options;      // kCgroup1, kCgroup2
  uint64_t size_bytes = 0;  // kTmpfs, kDev; 0 is the kernel's default
  uint32_t mode = 0;        // kTmpfs, kDev
  bool read_only = false;
  bool recursive_read_only = false;
  bool no_suid = false;
  bool no_dev = false;
  bool no_exec = false;
  bool strict_atime = false;
  Propagation propagation = Propagation::kPrivate;
  bool operator==(const MountPlan&) const = default;
};

// A node in the container's /dev, or, with an absolute path, elsewhere in its root (not with
// namespaces.user).
struct DevicePlan {
  std::string path;  // relative to /dev: "null", "net/tun"; "/data/disk"
  bool block = false;
  uint32_t major = 0;
  uint32_t minor = 0;
  uint32_t mode = 0666;
  uint32_t uid = 0;
  uint32_t gid = 0;
  bool operator==(const DevicePlan&) const = default;
};

// Bit n is capability n.
struct CapabilityPlan {
  uint64_t bounding = 0;
  uint64_t effective = 0;
  uint64_t permitted = 0;
  uint64_t inheritable = 0;
  uint64_t ambient = 0;
  bool operator==(const CapabilityPlan&) const = default;
};

// One classic BPF instruction, as struct sock_filter.
struct BpfInstruction {
  uint16_t code = 0;
  uint8_t jt = 0;
  uint8_t jf = 0;
  uint32_t k = 0;
  bool operator==(const BpfInstruction&) const = default;
};

// What decides over system calls, and how it is loaded: SECCOMP_FILTER_FLAG_* of seccomp(2).
struct SeccompPlan {
  std::vector<BpfInstruction> program;  // empty is unconfined
  bool log = false;                     // LOG: what it refuses is told the kernel's log
  bool spec_allow = true;               // SPEC_ALLOW: speculation as processes of the host have it
  bool operator==(const SeccompPlan&) const = default;
};

struct RlimitPlan {
  int32_t resource = 0;  // RLIMIT_*
  uint64_t soft = 0;
  uint64_t hard = 0;
  bool operator==(const RlimitPlan&) const = default;
};

// kNoFd is /dev/null. With `tty` the three are the slave of a new pty in the container's devpts;
// its master comes back in LaunchOutcome, and `in`, `out`, `err` are not used.
struct StdioPlan {
  FdIndex in = kNoFd;
  FdIndex out = kNoFd;
  FdIndex err = kNoFd;
  bool tty = false;
  uint16_t rows = 24;
  uint16_t columns = 80;
  bool operator==(const StdioPlan&) const = default;
};

// What execve(2) gets and the state it is called in.
struct ProcessPlan {
  std::vector<std::string> argv;  // not empty; argv[0] without '/' is looked up in env's PATH
  std::vector<std::string> env;   // complete
  std::string cwd = "/";          // made when missing (start only)
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;
  CapabilityPlan capabilities;
  bool no_new_privs = false;
  SeccompPlan seccomp;
  std::string app_armor;  // name of a profile; "" asks for none
  std::string selinux;    // label of the process; "" leaves the launcher's
  std::vector<RlimitPlan> rlimits;
  int32_t oom_score_adj = 0;
  uint32_t umask = 0022;
  StdioPlan stdio;
  bool operator==(const ProcessPlan&) const = default;
};

struct LaunchPlan {
  NamespacePlan namespaces;
  CgroupPlan cgroup;
  RootPlan root;
  std::vector<MountPlan> mounts;
  std::vector<DevicePlan> devices;
  // With namespaces.user, where no node can be made: a detached copy of the host's /dev, from which
  // `devices` are bound; used up.
  FdIndex host_devices = kNoFd;
  std::vector<std::string> masked_paths;     // absolute in the container
  std::vector<std::string> read_only_paths;  // absolute in the container
  std::string selinux;  // label of the root and of what is mounted new or shared; "" sets none
  ProcessPlan process;
  bool operator==(const LaunchPlan&) const = default;
};

// Joins every namespace of the process `target`.
struct ExecPlan {
  FdIndex target = kNoFd;            // pidfd of the container's first process
  bool join_user = false;            // the container has a user namespace of its own
  bool shares_pid_namespace = true;  // with other containers
  CgroupPlan cgroup;
  ProcessPlan process;
  bool operator==(const ExecPlan&) const = default;
};

// A short-lived child makes these, hands them back (SandboxFds) and exits. A field that is false
// leaves the pod with the host's.
struct SandboxPlan {
  bool network = true;
  bool ipc = true;
  bool uts = true;
  std::vector<IdMapEntry> uid_map;  // not empty: a user namespace that owns the others
  std::vector<IdMapEntry> gid_map;
  std::string hostname;                        // "" leaves it
  std::map<std::string, std::string> sysctls;  // "net/core/somaxconn" -> "1024"
  uint64_t shm_size_bytes = 0;                 // 0: no /dev/shm of the pod's own
  // shareProcessNamespace: descriptor of a static init that becomes PID 1 of a new pid namespace
  // and lives on. Then the child does not exit; it is `pidfd` of the launch.
  FdIndex init_binary = kNoFd;
  CgroupPlan init_cgroup;    // for that init only
  std::string init_selinux;  // its label
  bool operator==(const SandboxPlan&) const = default;
};

using Plan = std::variant<LaunchPlan, ExecPlan, SandboxPlan>;

}  // namespace holdfast::model
