// SPDX-License-Identifier: Apache-2.0
// TreeTop: what all pods of our tree share: its root and the directories of the QoS classes (tree.h draws them), with their
// limits. The root is marked (extended attribute) with the instance's root directory: a kubepods tree of somebody else is
// refused (kConflict) and never touched.
//
// It can go beneath a running agent: whoever stops the unit that delegates it (`systemctl stop holdfast-pods`) ends all
// pods and has systemd remove every directory. MakeAnew() is for who finds that.
//
// Holds descriptors of these directories for its lifetime. They belong to detached mounts of the root, so that from none
// of them, nor from what is opened below, ".." leads out of the tree. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"
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

struct TreeTopOptions {
  std::string owner;   // Instance::root_dir, the mark
  std::string parent;  // Instance::cgroup_parent; made where it is missing
  CgroupNaming naming = CgroupNaming::kCgroupfs;
  NodeAllocatable allocatable;
};

class TreeTop {
 public:
  struct Dirs {
    Cgroup root;  // Guaranteed pods lie in it
    Cgroup burstable;
    Cgroup best_effort;
    const Cgroup& Of(model::QosClass qos) const;
  };

  // `backend` outlives it.
  TreeTop(CgroupBackend& backend, TreeTopOptions options)
      : backend_(backend), options_(std::move(options)) {}

  // Once, before all others.
  Result<void> Make();
  // Shared with whoever is using them.
  std::shared_ptr<const Dirs> Get() const;
  // In place of `gone`, with the limits that were set; what another thread has made meanwhile, if so.
  Result<std::shared_ptr<const Dirs>> MakeAnew(const std::shared_ptr<const Dirs>& gone);
  // Brings the root's limits up to TreeTopOptions::allocatable. EBUSY (sys_errno) on cgroup v1 while more memory is in use.
  Result<void> Limit();
  // Gives the classes what their pods ask for together; written only when that has changed. To a top that is gone it is
  // given when that is made anew.
  Result<void> SetRequests(const ClassRequests& requests);
  // Takes it away; EBUSY (sys_errno) while a pod is left. Nothing else may be called afterwards.
  Result<void> Remove();

 private:
  Result<Cgroup> OpenRoot() const;
  Result<Cgroup> OpenClass(const Cgroup& root, model::QosClass qos) const;
  Result<std::shared_ptr<const Dirs>> Open() const;
  Result<void> ApplyAllocatable(const Dirs& dirs) const;
  Result<void> ApplyRequests(const Dirs& dirs, const ClassRequests& requests) const;

  CgroupBackend& backend_;
  const TreeTopOptions options_;
  mutable std::mutex mutex_;  // what follows
  std::shared_ptr<const Dirs> dirs_;
  std::optional<ClassRequests> requests_;
};

}  // namespace holdfast::runtime
