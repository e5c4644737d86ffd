// SPDX-License-Identifier: Apache-2.0
// Sandboxes: what the containers of a pod share: record, cgroup, namespaces, /dev/shm.
// Thread-safe; calls that change the same pod take turns by Parts::pod_locks (the caller locks).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/containers/parts.h"
#include "runtime/containers/sandbox_pool.h"

namespace holdfast::runtime {

// Name, in the pod's cgroup, of the one that the init of shareProcessNamespace runs in.
inline constexpr char kInitCgroup[] = "sandbox";

class Sandboxes {
 public:
  // "net", "ipc", "uts", "user", "pid", "shm", "proc"
  using Descriptors = std::map<std::string, UniqueFd>;

  Sandboxes(Parts& parts, SandboxPool& pool) : parts_(parts), pool_(pool) {}

  // Reads the records. Once, before other calls.
  Result<void> Adopt();

  Result<void> Ensure(const model::SandboxSpec& spec);
  // Makes the cgroup of a sandbox that stands, where somebody took it away (runtime/cgroup/top.h).
  Result<void> EnsureCgroup(const PodUid& uid);
  // ContainerRuntime::Resize(): idempotent, so that it can be cut anywhere.
  Result<void> Resize(const PodUid& uid, const model::ResourceSpec& pod,
                      const std::vector<ResizedContainer>& containers);
  // Kills what is left in it and takes everything away, in an order that a crash may cut anywhere;
  // works without a record too.
  Result<void> Remove(const PodUid& uid);
  // As the keeper has it now; what it holds is remembered for Observe().
  Result<std::vector<ObservedSandbox>> List();
  // From memory; asks the keeper only when that was away since.
  std::optional<ObservedSandbox> Observe(const PodUid& uid);
  // Holder or launcher ended and was replaced: namespaces may be lost.
  void KeeperWasAway() { ask_again_ = true; }

  // kNotFound without a sandbox.
  Result<model::SandboxSpec> Spec(const PodUid& uid) const;
  // SandboxRecord::selinux_level; "" without a sandbox, too.
  std::string SelinuxLevel(const PodUid& uid) const;
  // The namespaces, kept open by the shared owner while it is used. Empty for a pod that shares all
  // with the host.
  Result<std::shared_ptr<const Descriptors>> Fds(const PodUid& uid);

  // Whether the agent asked for this pod so recently that a list of live pods may not have it yet.
  bool EnsuredRecently(const PodUid& uid) const;
  std::vector<PodUid> Known() const;

 private:
  struct Info {
    model::SandboxSpec spec;
    std::optional<BootTime> ensured_at = {};  // by this process
    bool held = false;                        // the keeper has the namespaces, as far as we know
    uint64_t made_at = 0;  // number of the change by which we made them; 0: not by us
    std::shared_ptr<const PidFd> init = {};  // of shared processes, once we have it
    bool LacksInit() const { return spec.share_process_namespace && held && !init; }
    bool IsDying() const;
    ObservedSandbox Shown() const;
  };

  // Both at once: the launcher makes the namespaces while the cgroup is made here.
  Result<std::vector<keeper::KeptFd>> MakeCgroupAndNamespaces(const model::SandboxSpec& spec);
  Result<void> MakeCgroup(const model::SandboxSpec& spec);
  Result<void> RefreshClasses();
  // The pod's level as it was given once, or given now where the node has SELinux.
  Result<std::string> EnsureSelinuxLevel(const model::SandboxSpec& spec);
  std::optional<Info> Find(const PodUid& uid) const;
  void NoteHeld(const PodUid& uid);
  // That the keeper has the namespaces. What it lost it is given again, from here or out of a container of the pod that
  // runs. kNotFound when nobody has them, and of a dying sandbox, which is let go of.
  Result<void> FindKept(const Info& known);
  Result<void> DropNamespaces(const PodUid& uid);
  // Of shared processes that an earlier agent made, once for all.
  void FindInit(const PodUid& uid);
  Result<void> Restore(const model::SandboxSpec& spec);
  std::shared_ptr<const Descriptors> Cached(const PodUid& uid);
  std::shared_ptr<const Descriptors> Remember(const PodUid& uid, std::vector<keeper::KeptFd> fds);

  Parts& parts_;
  SandboxPool& pool_;
  mutable std::mutex mutex_;  // what follows
  std::map<PodUid, Info> infos_;
  std::map<PodUid, std::string> selinux_levels_;  // those that are given
  uint64_t changes_ = 0;
  // Most recently used first. Shared with callers that are using the descriptors.
  std::list<std::pair<PodUid, std::shared_ptr<const Descriptors>>> cache_;
  std::atomic<bool> ask_again_ = false;
};

}  // namespace holdfast::runtime
