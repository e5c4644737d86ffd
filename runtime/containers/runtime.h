// SPDX-License-Identifier: Apache-2.0
// Runtime: puts the parts together behind ContainerRuntime. No policy of its own besides who waits
// for whom: calls that change a pod hold that pod's lock.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "runtime/containers/audit.h"
#include "runtime/containers/exec.h"
#include "runtime/containers/half_made.h"
#include "runtime/containers/keeper_watch.h"
#include "runtime/containers/log_registrations.h"
#include "runtime/containers/parts.h"
#include "runtime/containers/sandbox_pool.h"
#include "runtime/containers/sandboxes.h"
#include "runtime/containers/watcher.h"

namespace holdfast::runtime {

class Runtime final : public ContainerRuntime {
 public:
  explicit Runtime(std::unique_ptr<Parts> parts);
  ~Runtime() override;

  // Adopts what runs, takes away what is half-made, starts watching. `holder` is the keeper's.
  Result<void> Begin(PidFd holder);

  Result<void> EnsureSandbox(const model::SandboxSpec& spec) override;
  Result<void> Resize(const PodUid& uid, const model::ResourceSpec& pod,
                      const std::vector<ResizedContainer>& containers) override;
  Result<NsFd> NetworkNamespace(const PodUid& uid) override;
  Result<void> RemoveSandbox(const PodUid& uid) override;
  std::expected<StartedContainer, StartFailure> Start(const model::ContainerSpec& spec) override;
  Result<void> Signal(const ContainerId& id, int signal) override;
  Result<void> Kill(const ContainerId& id) override;
  Result<void> Remove(const ContainerId& id) override;
  Result<std::unique_ptr<ExecSession>> Exec(const ContainerId& id, const ExecSpec& spec) override;
  Result<AttachedStreams> Attach(const ContainerId& id, const AttachSpec& spec) override;
  Result<void> CloseStdin(const ContainerId& id) override;
  Result<std::vector<ObservedContainer>> ListContainers() override;
  Result<std::vector<ObservedSandbox>> ListSandboxes() override;
  ObservedPod Observe(const PodUid& uid) override;
  void SetChangeHint(std::function<void(const PodUid&)> hint) override;
  Result<void> HoldDevice(const PodUid& uid, const std::string& volume, int device) override;
  Result<model::BlockDevice> HeldDevice(const PodUid& uid, const std::string& volume) override;
  Result<void> LetGoOfDevice(const PodUid& uid, const std::string& volume) override;
  void KeepReady(size_t sandboxes) override { pool_.KeepReady(sandboxes); }
  Result<std::vector<Leftover>> Audit(const std::vector<PodUid>& live, bool repair) override;

 private:
  Result<void> Adopt();
  Result<void> AdoptContainer(const keeper::StartRecord& start);
  // HalfMade::Adopt
  bool AdoptLate(const keeper::StartRecord& start, const ContainerRecord& record);
  Result<void> EndFormerExecs(const std::vector<keeper::StartRecord>& starts);
  // The container of the same pod, name and attempt that runs or ran already.
  std::optional<StartedContainer> FindStarted(const model::ContainerSpec& spec) const;
  // KeeperWatch::Holder
  PidFd FindKeeper();
  void StartKeeper();
  // The watcher's questions: about a container, about an exec, about a launch that was under way
  // when the former agent ended.
  bool Resolve(const std::string& id);
  bool ResolveContainer(const TableEntry& entry);
  void Watch(const TableEntry& entry);
  void Hint(const PodUid& uid);
  // As `entry` stands now; finds out that it has ended, if nobody else did.
  std::optional<ObservedContainer> LookAt(const TableEntry& entry);

  std::unique_ptr<Parts> parts_;
  SandboxPool pool_;
  Sandboxes sandboxes_;
  ExecReaper execs_;
  Auditor auditor_;
  std::mutex hint_mutex_;
  std::function<void(const PodUid&)> hint_;
  HalfMade half_made_;
  LogRegistrations logs_;
  // Last: their threads call into all of the above.
  std::unique_ptr<ExitWatcher> watcher_;
  std::unique_ptr<KeeperWatch> keeper_watch_;
};

}  // namespace holdfast::runtime
