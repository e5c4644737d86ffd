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
// The root and the classes are TreeTop's (top.h); everything deeper is opened below them when needed. Thread-safe. All verbs
// are idempotent.
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
#include "runtime/cgroup/top.h"

namespace holdfast::runtime {

struct CgroupTreeOptions : TreeTopOptions {
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

  // Makes the pod's directory, and the top where it is gone, and brings its limits up to date.
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

  // Every directory that has the form of one of ours; others are left out.
  Result<std::vector<FoundPodCgroup>> List();

  CgroupBackend& backend() { return *backend_; }
  TreeTop& top() { return top_; }

 private:
  struct PodDirs {
    Cgroup limited;             // in the hierarchies where containers have directories of their own
    std::vector<DirFd> shared;  // in the others
  };

  CgroupTree(std::unique_ptr<CgroupBackend> backend, CgroupTreeOptions options)
      : backend_(std::move(backend)), options_(std::move(options)), top_(*backend_, options_) {}

  Result<PodDirs> OpenPodDirs(const PodUid& uid, model::QosClass qos);
  CgroupLimits LimitsOfPod(const model::ResourceSpec& limits) const;
  std::vector<model::HugePageLimit> HugePages(const model::ResourceSpec& limits) const;
  Result<MadeCgroup> MakePod(const PodUid& uid, model::QosClass qos);

  const std::unique_ptr<CgroupBackend> backend_;
  const CgroupTreeOptions options_;
  TreeTop top_;
  std::vector<uint64_t> huge_page_sizes_;  // that can be limited
};

// What Kubernetes' formulas make of a container's or a pod's numbers. Pure.
CgroupLimits LimitsFromResources(const model::ResourceSpec& resources);
// What is absent of memory_min, memory_low and memory_high is none, whatever is there.
void LiftProtection(CgroupLimits& limits);

}  // namespace holdfast::runtime
