// SPDX-License-Identifier: Apache-2.0
// The beginning of a Runtime: what a former agent left running is taken over, what it left
// half-made is taken away.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/containers/keeper_process.h"
#include "runtime/containers/runtime.h"

namespace holdfast::runtime {
namespace {

Result<CgroupTreeOptions> TreeOptions(const RuntimeOptions& options) {
  CgroupTreeOptions tree;
  tree.owner = options.instance.root_dir;
  tree.parent = options.instance.cgroup_parent;
  tree.naming = options.cgroup_naming;
  tree.allocatable = options.allocatable;
  if (tree.allocatable.cpu_milli == CgroupLimits::kUnlimited) {
    tree.allocatable.cpu_milli = static_cast<int64_t>(std::thread::hardware_concurrency()) * 1000;
  }
  tree.pod_pids = options.pod_pids;
  tree.oom_group = !options.single_process_oom_kill;
  return tree;
}

}  // namespace

Result<std::unique_ptr<ContainerRuntime>> MakeContainerRuntime(RuntimeOptions options) {
  const model::Instance instance = options.instance;
  // The keeper first: it mounts the run directory.
  ASSIGN_OR_RETURN(PidFd holder, EnsureKeeper(options));
  sys::HostFacts facts;
  if (options.facts) {
    facts = *options.facts;
  } else {
    ASSIGN_OR_RETURN(facts, sys::ProbeHost());
    ASSIGN_OR_RETURN(facts.capabilities, KeeperCapabilities(instance));
  }
  ASSIGN_OR_RETURN(CgroupLayout layout, DetectCgroupLayout(instance.cgroup_root));
  for (const std::string& hierarchy : layout.left_out) {
    if (!options.warn) break;
    options.warn(StrCat("containers stay in the root of cgroup hierarchy ", hierarchy,
                        ", where one with CAP_SYS_ADMIN can reach the node. Mount it below ",
                        instance.cgroup_root, " and restart"));
  }
  ASSIGN_OR_RETURN(CgroupTreeOptions tree_options, TreeOptions(options));
  ASSIGN_OR_RETURN(std::unique_ptr<CgroupTree> tree,
                   CgroupTree::Open(std::move(layout), std::move(tree_options)));
  if (auto limited = tree->top().Limit(); !limited) {
    // EBUSY: running pods use more than the new limit; the old one stays.
    if (limited.error().sys_errno() != EBUSY) return std::move(limited.error());
    if (options.warn) options.warn(StrCat(limited.error().message(), ": pods use more, ignoring"));
  }
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, instance.PodsDir(), 0755));
  ASSIGN_OR_RETURN(StateStore state, StateStore::Open(instance.run_dir));
  const IdSpace ids = options.ids;
  auto parts = std::unique_ptr<Parts>(new Parts{std::move(options),
                                                facts,
                                                std::move(state),
                                                std::move(tree),
                                                keeper::KeeperClient(instance.run_dir),
                                                {instance.PodsDir(), ids},
                                                {},
                                                {},
                                                {}});
  auto runtime = std::make_unique<Runtime>(std::move(parts));
  RETURN_IF_ERROR(runtime->Begin(std::move(holder)));
  return std::unique_ptr<ContainerRuntime>(std::move(runtime));
}

Result<void> RemoveNodeParts(const RuntimeOptions& options) {
  ASSIGN_OR_RETURN(CgroupLayout layout, DetectCgroupLayout(options.instance.cgroup_root));
  ASSIGN_OR_RETURN(CgroupTreeOptions tree_options, TreeOptions(options));
  ASSIGN_OR_RETURN(const std::unique_ptr<CgroupTree> tree,
                   CgroupTree::Open(std::move(layout), std::move(tree_options)));
  return tree->top().Remove();
}

Result<void> Runtime::Begin(PidFd holder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> damaged, parts_->ids.Adopt());
  for (const std::string& text : damaged) {
    if (parts_->options.warn) parts_->options.warn(text);
  }
  RETURN_IF_ERROR(sandboxes_.Adopt());
  RETURN_IF_ERROR(pool_.Start());
  // Subscribed before the records are read, so that no exit falls between the two.
  auto exits = parts_->keeper.WatchExits();
  // Any program of this user can have taken all instances of inotify, and pidfds tell of ends too.
  if (!exits && exits.error().code() != Code::kResourceExhausted) return std::move(exits.error());
  if (!exits && parts_->options.warn) {
    parts_->options.warn(StrCat("hints of ended containers: ", exits.error().message()));
  }
  ExitWatcher::Callbacks callbacks;
  callbacks.resolve = [this](const std::string& id) { return Resolve(id); };
  callbacks.read_hints = [](int watch) { return keeper::KeeperClient::ReadExitHints(watch); };
  ASSIGN_OR_RETURN(
      watcher_, ExitWatcher::Start(exits ? std::move(*exits) : UniqueFd(), std::move(callbacks)));
  ASSIGN_OR_RETURN(keeper_watch_,
                   KeeperWatch::Start(std::move(holder), {.find = [this] { return FindKeeper(); },
                                                          .start = [this] { StartKeeper(); }}));
  RETURN_IF_ERROR(Adopt());
  if (const auto ensured = logs_.EnsureAll(); !ensured && parts_->options.warn) {
    parts_->options.warn(StrCat("logs of containers: ", ensured.error().message()));
  }
  for (const ContainerId& id : half_made_.List()) {
    if (!half_made_.Resolve(id)) watcher_->Ask(id.value);
  }
  return {};
}

PidFd Runtime::FindKeeper() {
  auto found = FindHolder(parts_->options.instance);
  if (!found) return {};
  sandboxes_.KeeperWasAway();
  pool_.LookAgain();
  return std::move(*found);
}

void Runtime::StartKeeper() {
  if (parts_->options.keeper_binary.empty()) return;  // somebody else starts it
  (void)SpawnKeeper(parts_->options);  // tried again a second later; who needs it gets the error
}

Result<void> Runtime::Adopt() {
  RETURN_IF_ERROR(parts_->keeper.RemoveForgottenExits());
  ASSIGN_OR_RETURN(const std::vector<keeper::StartRecord> starts, parts_->keeper.ListStarts());
  for (const keeper::StartRecord& start : starts) {
    if (start.kind != keeper::ProcessKind::kContainer) continue;
    ASSIGN_OR_RETURN(const bool begun, parts_->keeper.HasBegun(start));
    if (begun) RETURN_IF_ERROR(AdoptContainer(start));  // otherwise half made
  }
  RETURN_IF_ERROR(EndFormerExecs(starts));
  ASSIGN_OR_RETURN(std::vector<ContainerRecord> records, parts_->state.Containers());
  std::erase_if(records, [&](const ContainerRecord& record) {
    return parts_->table.Find(record.spec.id).has_value();
  });
  half_made_.Take(std::move(records));
  return {};
}

// Their sessions ended with the former agent.
Result<void> Runtime::EndFormerExecs(const std::vector<keeper::StartRecord>& starts) {
  ASSIGN_OR_RETURN(auto cgroups, FindExecCgroups(*parts_));
  for (const keeper::StartRecord& start : starts) {
    if (start.kind == keeper::ProcessKind::kContainer) continue;
    auto process = parts_->keeper.OpenProcess(start);
    if (process) ::syscall(SYS_pidfd_send_signal, process->get(), SIGKILL, nullptr, 0);
    std::shared_ptr<const Cgroup> container;
    if (auto at = cgroups.extract(start.id)) container = std::move(at.mapped());
    if (container) RETURN_IF_ERROR(KillExec(*parts_, *container, start.id));
    execs_.Abandon(start.id, true, std::move(container));
  }
  // Made for a launch that did not come, or left with a process that runs on by itself.
  for (const auto& [id, container] : cgroups) RemoveFormerExec(*container, id);
  return {};
}

bool Runtime::AdoptLate(const keeper::StartRecord& start, const ContainerRecord& record) {
  if (!AdoptContainer(start)) return false;
  logs_.Ensure(record);
  Hint(record.spec.pod_uid);
  return true;
}

Result<void> Runtime::AdoptContainer(const keeper::StartRecord& start) {
  auto brief = DecodeBrief(start.tag);
  if (!brief) return {};  // not started by us: the audit names it
  TableEntry entry{ContainerId(start.id), std::move(*brief), start, nullptr, std::nullopt};
  auto process = parts_->keeper.OpenProcess(start);
  if (process) entry.process = std::make_shared<const PidFd>(std::move(*process));
  parts_->table.Put(entry);
  Watch(entry);
  return {};
}

}  // namespace holdfast::runtime
