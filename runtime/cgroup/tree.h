// SPDX-License-Identifier: Apache-2.0
// CgroupTree: our kubepods tree below Instance::cgroup_parent, by QoS class, pod and container.
//
//   <parent>/kubepods/                 Guaranteed pods: pod<uid>/<container id>
//   <parent>/kubepods/burstable/       pod<uid>/<container id>
//   <parent>/kubepods/besteffort/      pod<uid>/<container id>
//
// In hierarchies without limits of ours (further.h) the tree ends with the pods: their containers
// join the pod's directory.
//
// Holds the descriptors of the root and of the QoS directories for its lifetime; everything deeper
// is opened below them when needed. They belong to detached mounts of
// the root, so that from no descriptor of this tree ".." leads out of it. Thread-safe: no state
// changes after Open(). All verbs are idempotent. The root is marked (extended attribute) with the
// instance's root directory: a kubepods tree of somebody else is refused (kConflict) and never
// touched.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/instance.h"
#include "runtime/cgroup/backend.h"
#include "runtime/cgroup/naming.h"

namespace holdfast::runtime {

// Limits of the tree's root (feature-map 2.4.3); CgroupLimits::kUnlimited leaves one out.
struct NodeAllocatable {
  int64_t cpu_milli = CgroupLimits::kUnlimited;
  int64_t memory_bytes = CgroupLimits::kUnlimited;
  int64_t pids = CgroupLimits::kUnlimited;
};

// What the pods of a class ask for together.
struct ClassRequests {
  int64_t burstable_cpu_milli = 0;
  int64_t burstable_memory_low = 0;
  int64_t guaranteed_memory_min = 0;
  bool operator==(const ClassRequests&) const = default;
};

struct CgroupTreeOptions {
  std::string owner;   // Instance::root_dir, the mark
  std::string parent;  // Instance::cgroup_parent
  CgroupNaming naming = CgroupNaming::kCgroupfs;
  NodeAllocatable allocatable;
  // Processes and threads of a pod whose ResourceSpec does not say (kubelet's podPidsLimit).
  int64_t pod_pids = CgroupLimits::kUnlimited;
  bool oom_group = true;  // false: kubelet's singleProcessOOMKill
};

struct FoundPodCgroup {
  PodUid uid;
  model::QosClass qos = model::QosClass::kBestEffort;
  std::vector<ContainerId> containers;
};

class CgroupTree {
 public:
  // Makes the root and the QoS directories, and `parent` where it is missing.
  static Result<std::unique_ptr<CgroupTree>> Open(CgroupLayout layout, CgroupTreeOptions options);

  // Brings the root's limits up to CgroupTreeOptions::allocatable. EBUSY (sys_errno) on cgroup v1
  // while more memory is in use.
  Result<void> LimitRoot();
  // Makes the pod's directory and brings its limits up to date.
  Result<void> EnsurePod(const PodUid& uid, model::QosClass qos, const model::ResourceSpec& limits);
  // Brings the limit of processes of a pod that is there already, such as a former agent's, up to
  // CgroupTreeOptions::pod_pids. Absent is success.
  Result<void> LimitPodPids(const PodUid& uid, model::QosClass qos,
                            const model::ResourceSpec& limits);
  // ContainerRuntime::Resize() (holdfast/interfaces).
  Result<void> Resize(const PodUid& uid, model::QosClass qos, const model::ResourceSpec& pod,
                      const std::vector<ResizedContainer>& containers);
  // Which limit of processes is reached, the pod's or that of all pods together, as text for an
  // error; "" when neither is.
  Result<std::string> PidsLimitReached(const PodUid& uid, model::QosClass qos);
  // Makes a container's directory with its limits; the pod's must exist. Processes are put in by
  // the launcher, which gets the descriptors. `devices`: what it may use beside the standard ones.
  Result<Cgroup> MakeContainer(const PodUid& uid, model::QosClass qos, const ContainerId& id,
                               const model::ResourceSpec& limits, bool privileged,
                               std::vector<DeviceRule> devices = {});
  // kNotFound when it is not there.
  Result<Cgroup> OpenContainer(const PodUid& uid, model::QosClass qos, const ContainerId& id);
  Result<Cgroup> OpenPod(const PodUid& uid, model::QosClass qos);
  // Kill what is in it, wait for its end (a second at most) and remove it. Absent is success.
  Result<void> RemoveContainer(const PodUid& uid, model::QosClass qos, const ContainerId& id);
  Result<void> RemovePod(const PodUid& uid, model::QosClass qos);
  // The same without killing: EBUSY (sys_errno) when a process is in it. Memory comes first in
  // every layout, and the launcher attaches to it first, so of a removal and a launch one fails.
  Result<void> RemoveEmptyContainer(const PodUid& uid, model::QosClass qos, const ContainerId& id);

  // Gives the classes what their pods ask for together.
  Result<void> SetClassRequests(const ClassRequests& requests);

  // Takes the root and the QoS directories away, for an uninstall; EBUSY (sys_errno) while a pod is
  // left. Nothing else may be called afterwards.
  Result<void> RemoveRoot();

  // Every directory that has the form of one of ours; others are left out.
  Result<std::vector<FoundPodCgroup>> List();

  CgroupBackend& backend() { return *backend_; }

 private:
  struct PodDirs {
    Cgroup limited;             // in the hierarchies where containers have directories of their own
    std::vector<DirFd> shared;  // in the others
  };

  CgroupTree(std::unique_ptr<CgroupBackend> backend, CgroupTreeOptions options)
      : backend_(std::move(backend)), options_(std::move(options)) {}

  Result<PodDirs> OpenPodDirs(const PodUid& uid, model::QosClass qos);
  CgroupLimits LimitsOfPod(const model::ResourceSpec& limits) const;
  std::vector<model::HugePageLimit> HugePages(const model::ResourceSpec& limits) const;
  Result<void> OpenRoot();
  Result<void> OpenQosDirs();
  const Cgroup& ParentOf(model::QosClass qos) const;

  const std::unique_ptr<CgroupBackend> backend_;
  const CgroupTreeOptions options_;
  Cgroup root_;
  Cgroup burstable_;
  Cgroup best_effort_;
  std::vector<uint64_t> huge_page_sizes_;  // that can be limited
};

// What Kubernetes' formulas make of a container's or a pod's numbers. Pure.
CgroupLimits LimitsFromResources(const model::ResourceSpec& resources);
// What is absent of memory_min, memory_low and memory_high is none, whatever is there.
void LiftProtection(CgroupLimits& limits);

}  // namespace holdfast::runtime
