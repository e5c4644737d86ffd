// SPDX-License-Identifier: Apache-2.0
// ContainerSpec: one container as the agent wants it, free of Kubernetes types and of kernel
// detail. The agent makes it from a Pod and an image's config; runtime/plan turns it into a
// LaunchPlan. Everything that came from an image or a manifest is untrusted text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/model/selinux.h"

namespace holdfast::model {

// An overlay of image layers. Paths are directories of our own image store and pod directory.
struct RootFs {
  std::vector<std::string> layers;  // absolute, lowest first
  std::string scratch;              // absolute directory that gets `upper` and `work`
  bool read_only = false;           // readOnlyRootFilesystem
  bool operator==(const RootFs&) const = default;
};

enum class MountPropagation : uint8_t { kPrivate, kHostToContainer, kBidirectional };

struct MountSpec {
  // kGenerated is a bind of a file that the agent made for this pod alone. With a user namespace it
  // is given to the pod's root instead of being mounted with an id map: it lies on a tmpfs, which
  // takes none before Linux 6.3.
  enum class Kind : uint8_t { kBind, kTmpfs, kGenerated };
  Kind kind = Kind::kBind;
  std::string source;       // kBind: absolute host path of the volume; kGenerated: of the file
  std::string sub_path;     // kBind: resolved beneath source, may not leave it
  std::string destination;  // absolute in the container
  bool read_only = false;
  bool recursive_read_only = false;
  MountPropagation propagation = MountPropagation::kPrivate;
  uint64_t size_bytes = 0;  // kTmpfs; 0 is the kernel's default
  // kBind: source lies below this directory, and no link on the way from there is followed: others may write there. "":
  // source is opened as it is written.
  std::string source_root = {};
  // kBind: where the node has SELinux, all of source gets the label of the container's files.
  bool relabel = false;
  bool operator==(const MountSpec&) const = default;
};

// A block device as its node on the host shows it.
struct BlockDevice {
  uint32_t major = 0;
  uint32_t minor = 0;
  uint32_t mode = 0;  // permissions, and the node's owner
  uint32_t uid = 0;
  uint32_t gid = 0;
  bool operator==(const BlockDevice&) const = default;
};

// One that the container gets a node of, and may use.
struct DeviceSpec {
  BlockDevice device;
  std::string destination;  // absolute in the container
  bool read_only = false;
  bool operator==(const DeviceSpec&) const = default;
};

enum class NamespaceMode : uint8_t { kContainer, kPod, kHost };

// net, ipc and uts are the pod's or the host's; pid may also be the container's own.
struct NamespaceSpec {
  NamespaceMode network = NamespaceMode::kPod;
  NamespaceMode ipc = NamespaceMode::kPod;
  NamespaceMode uts = NamespaceMode::kPod;
  NamespaceMode pid = NamespaceMode::kContainer;
  bool private_time = false;
  ContainerId pid_of = {};  // pid kPod: not the pod's but this container's own; it has to run
  bool operator==(const NamespaceSpec&) const = default;
};

// The identity as asked for; runtime/plan resolves names out of the image's /etc/passwd and
// /etc/group. run_as_* (numbers from the pod) win over image_user.
struct UserSpec {
  std::string image_user;  // "", "name", "uid", "name:group", "uid:gid"
  std::optional<int64_t> run_as_user;
  std::optional<int64_t> run_as_group;
  bool run_as_non_root = false;
  std::vector<int64_t> supplemental_groups;  // includes fsGroup
  bool strict_groups = false;                // supplementalGroupsPolicy Strict
  bool operator==(const UserSpec&) const = default;
};

struct SecuritySpec {
  bool privileged = false;
  bool allow_privilege_escalation = true;      // false sets no_new_privs
  std::vector<std::string> add_capabilities;   // without CAP_, or "ALL"
  std::vector<std::string> drop_capabilities;  // without CAP_, or "ALL"
  bool unmasked_proc = false;                  // procMount: Unmasked
  enum class Seccomp : uint8_t { kUnconfined, kRuntimeDefault, kLocalhost };
  Seccomp seccomp = Seccomp::kRuntimeDefault;
  std::string seccomp_profile;    // kLocalhost: absolute path of an OCI seccomp profile (JSON)
  std::string app_armor_profile;  // one that the kernel has; "": none is asked for
  SelinuxOptions selinux;         // the container's, else the pod's
  bool operator==(const SecuritySpec&) const = default;
};

struct HugePageLimit {
  uint64_t page_bytes = 0;  // the size of one
  uint64_t limit_bytes = 0;
  bool operator==(const HugePageLimit&) const = default;
};

// Values are already computed by Kubernetes' formulas (feature-map 2.4); absent is "not limited".
struct ResourceSpec {
  int64_t cpu_milli_request = 0;           // shares and weight derive from it; 0 is the minimum
  std::optional<int64_t> cpu_milli_limit;  // quota
  std::optional<int64_t> memory_limit_bytes;
  std::optional<int64_t> pids_limit;
  int32_t oom_score_adj = 0;
  std::vector<HugePageLimit> huge_pages;  // none of every size that is not named
  // cgroup v2 alone has these.
  int64_t swap_limit_bytes = 0;  // beside the memory limit
  int64_t memory_min_bytes = 0;
  int64_t memory_low_bytes = 0;
  std::optional<int64_t> memory_high_bytes;
  bool operator==(const ResourceSpec&) const = default;
};

enum class QosClass : uint8_t { kGuaranteed, kBurstable, kBestEffort };

// Where the output goes: CRI log format, rotated by size and count.
struct LogSpec {
  std::string path;  // absolute: <pod_log_dir>/<ns>_<pod>_<uid>/<container>/<attempt>.log
  uint64_t max_size_bytes = 10ull << 20;
  uint32_t max_files = 5;
  bool operator==(const LogSpec&) const = default;
};

struct Rlimit {
  std::string type;  // "RLIMIT_NOFILE"
  uint64_t soft = 0;
  uint64_t hard = 0;
  bool operator==(const Rlimit&) const = default;
};

struct ContainerSpec {
  ContainerId id;
  PodUid pod_uid;
  std::string pod_namespace;
  std::string pod_name;
  std::string name;      // container's name within the pod
  uint32_t attempt = 0;  // restart count

  RootFs root_fs;
  std::vector<MountSpec>
      mounts;  // volumes, /etc/hosts, /etc/resolv.conf, termination log, …; in order
  std::vector<std::string> argv;  // entrypoint + arguments, already merged and expanded; not empty
  std::vector<std::string> env;   // "NAME=value", already expanded, last one wins
  std::string working_dir;        // "" is "/"; created when missing
  std::string hostname;           // for $HOSTNAME's default

  UserSpec user;
  SecuritySpec security;
  NamespaceSpec namespaces;
  ResourceSpec resources;
  QosClass qos = QosClass::kBestEffort;
  std::vector<Rlimit> rlimits;
  LogSpec log;
  bool stdin_open = false;
  bool stdin_once = false;
  bool tty = false;
  std::optional<uint32_t> stop_signal;
  std::vector<DeviceSpec> devices;

  bool operator==(const ContainerSpec&) const = default;
};

// What the containers of one pod share.
struct SandboxSpec {
  PodUid uid;
  std::string pod_namespace;
  std::string pod_name;
  std::string hostname;
  bool host_network = false;
  bool host_pid = false;
  bool host_ipc = false;
  bool host_users = true;
  bool share_process_namespace = false;
  QosClass qos = QosClass::kBestEffort;
  ResourceSpec resources;                      // of the pod's cgroup (feature-map 2.4.7)
  std::map<std::string, std::string> sysctls;  // namespaced ones, "net.core.somaxconn" -> "1024"
  uint64_t shm_size_bytes = 64ull << 20;
  std::string owner;  // who made it and takes it away again; "" is the agent
  SelinuxOptions selinux;
  bool operator==(const SandboxSpec&) const = default;
};

}  // namespace holdfast::model
