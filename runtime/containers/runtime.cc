// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/runtime.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/containers/attach.h"
#include "runtime/containers/held_devices.h"
#include "runtime/containers/start.h"
#include "runtime/containers/teardown.h"

namespace holdfast::runtime {
namespace {

Result<void> SendSignal(const TableEntry& entry, int signal) {
  if (!entry.process) return {};
  if (::syscall(SYS_pidfd_send_signal, entry.process->get(), signal, nullptr, 0) == 0) return {};
  if (errno == ESRCH) return {};
  return Error::FromErrno(errno, StrCat("signal ", signal, " to container ", entry.id.value));
}

Error NoContainer(const ContainerId& id) { return NotFound(StrCat("no container ", id.value)); }

ObservedContainer Shown(const TableEntry& entry) {
  ObservedContainer seen;
  seen.id = entry.id;
  seen.pod_uid = entry.brief.pod_uid;
  seen.name = entry.brief.name;
  seen.attempt = entry.brief.attempt;
  seen.state = entry.exit ? ObservedContainer::State::kExited : ObservedContainer::State::kRunning;
  seen.pid = entry.start.pid;
  seen.started_at = entry.start.started_at;
  seen.exit = entry.exit;
  return seen;
}

}  // namespace

Runtime::Runtime(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)),
      pool_(*parts_),
      sandboxes_(*parts_, pool_),
      execs_(*parts_, [this](const std::string& id) { watcher_->Ask(id); }),
      auditor_(*parts_, sandboxes_),
      half_made_(*parts_,
                 [this](const keeper::StartRecord& start, const ContainerRecord& record) {
                   return AdoptLate(start, record);
                 }),
      logs_(*parts_) {}

Runtime::~Runtime() = default;

Result<void> Runtime::EnsureSandbox(const model::SandboxSpec& spec) {
  const auto starting = pool_.BeginStart();
  const auto guard = parts_->pod_locks.Lock(spec.uid);
  return WithContext(sandboxes_.Ensure(spec), StrCat("sandbox of pod ", spec.uid.value));
}

Result<void> Runtime::Resize(const PodUid& uid, const model::ResourceSpec& pod,
                             const std::vector<ResizedContainer>& containers) {
  const auto guard = parts_->pod_locks.Lock(uid);
  return sandboxes_.Resize(uid, pod, containers);
}

Result<NsFd> Runtime::NetworkNamespace(const PodUid& uid) {
  ASSIGN_OR_RETURN(const auto fds, sandboxes_.Fds(uid));
  const auto it = fds->find("net");
  if (it == fds->end()) return NotFound(StrCat("pod ", uid.value, " uses the host's network"));
  NsFd copy(::fcntl(it->second.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return Error::FromErrno(errno, "dup network namespace");
  return copy;
}

Result<void> Runtime::RemoveSandbox(const PodUid& uid) {
  const auto guard = parts_->pod_locks.Lock(uid);
  for (const TableEntry& entry : parts_->table.OfPod(uid)) {
    RETURN_IF_ERROR(TearDown(*parts_, entry.id, entry.brief));
  }
  return WithContext(sandboxes_.Remove(uid), StrCat("remove sandbox of pod ", uid.value));
}

std::expected<StartedContainer, StartFailure> Runtime::Start(const model::ContainerSpec& spec) {
  if (auto checked = CheckSpec(spec); !checked) return std::unexpected(std::move(checked.error()));
  const auto underway = pool_.BeginStart();
  const auto guard = parts_->pod_locks.Lock(spec.pod_uid);
  if (auto settled = half_made_.Await(spec); !settled) {
    return std::unexpected(StartFailure{StartFailure::Phase::kCreate, std::move(settled.error())});
  }
  if (auto started = FindStarted(spec)) return std::move(*started);
  auto starting = StartContainer(*parts_, sandboxes_, spec);
  if (!starting) return std::unexpected(std::move(starting.error()));
  parts_->table.Put(starting->entry);
  Watch(starting->entry);
  if (starting->log_is_late) {
    logs_.NoteLate(spec.id);
    if (parts_->options.warn) {
      parts_->options.warn(StrCat("log of container ", spec.id.value,
                                  ": the logger does not answer; it is asked again"));
    }
  }
  return std::move(starting->started);
}

std::optional<StartedContainer> Runtime::FindStarted(const model::ContainerSpec& spec) const {
  for (const TableEntry& known : parts_->table.OfPod(spec.pod_uid)) {
    if (known.brief.name != spec.name || known.brief.attempt != spec.attempt) continue;
    return StartedContainer{known.id, known.start.pid, known.start.started_at};
  }
  return std::nullopt;
}

void Runtime::Watch(const TableEntry& entry) {
  // Without a pidfd the process had ended before it was opened; without a place in the epoll set
  // the keeper's records tell of its end.
  if (!entry.process || !watcher_->Watch(entry.id.value, entry.process))
    watcher_->Ask(entry.id.value);
}

Result<void> Runtime::Signal(const ContainerId& id, int signal) {
  const auto entry = parts_->table.Find(id);
  if (!entry) return NoContainer(id);
  return SendSignal(*entry, signal);
}

Result<void> Runtime::Kill(const ContainerId& id) {
  const auto entry = parts_->table.Find(id);
  if (!entry || entry->exit) return {};
  // The first process of a pid namespace takes all others with it.
  RETURN_IF_ERROR(SendSignal(*entry, SIGKILL));
  RETURN_IF_ERROR(ThawPod(*parts_, entry->brief));  // or it would not die
  if (entry->brief.own_pid_namespace) return {};
  auto cgroup = parts_->cgroups->OpenContainer(entry->brief.pod_uid, entry->brief.qos, id);
  if (!cgroup && cgroup.error().code() == Code::kNotFound) return {};
  if (!cgroup) return std::move(cgroup.error());
  return parts_->cgroups->backend().KillAll(*cgroup);
}

Result<void> Runtime::Remove(const ContainerId& id) {
  const auto entry = parts_->table.Find(id);
  if (!entry) return {};
  if (!entry->exit && !HasEnded(*entry)) {
    return Conflict(StrCat("container ", id.value, " is running: stop it first"));
  }
  const auto guard = parts_->pod_locks.Lock(entry->brief.pod_uid);
  return TearDown(*parts_, id, entry->brief);
}

Result<std::unique_ptr<ExecSession>> Runtime::Exec(const ContainerId& id, const ExecSpec& spec) {
  const auto entry = parts_->table.Find(id);
  if (!entry) return NoContainer(id);
  if (entry->exit || HasEnded(*entry)) {
    return Error(Code::kConflict, StrCat("container ", id.value, " is not running"));
  }
  return StartExec(*parts_, execs_, *entry, spec);
}

Result<AttachedStreams> Runtime::Attach(const ContainerId& id, const AttachSpec& spec) {
  const auto entry = parts_->table.Find(id);
  if (!entry) return NoContainer(id);
  if (entry->exit || HasEnded(*entry)) {
    return Error(Code::kConflict, StrCat("container ", id.value, " is not running"));
  }
  return AttachTo(*parts_, *entry, spec);
}

Result<void> Runtime::CloseStdin(const ContainerId& id) {
  const auto entry = parts_->table.Find(id);
  if (!entry || !entry->brief.stdin_pipe) return {};
  return CloseStdinOf(*parts_, *entry);
}

Result<std::vector<ObservedContainer>> Runtime::ListContainers() {
  std::vector<ObservedContainer> all;
  for (const TableEntry& entry : parts_->table.List()) {
    if (auto seen = LookAt(entry)) all.push_back(std::move(*seen));
  }
  return all;
}

std::optional<ObservedContainer> Runtime::LookAt(const TableEntry& entry) {
  if (entry.exit || !HasEnded(entry)) return Shown(entry);
  (void)ResolveContainer(entry);  // not known yet: it is shown as running until it is
  const auto now = parts_->table.Find(entry.id);
  if (!now) return std::nullopt;
  return Shown(*now);
}

ObservedPod Runtime::Observe(const PodUid& uid) {
  ObservedPod pod;
  for (const TableEntry& entry : parts_->table.OfPod(uid)) {
    if (auto seen = LookAt(entry)) pod.containers.push_back(std::move(*seen));
  }
  // After them: what ended with the init of shared processes must not be seen beside a sandbox that stands.
  pod.sandbox = sandboxes_.Observe(uid);
  return pod;
}

Result<std::vector<ObservedSandbox>> Runtime::ListSandboxes() {
  logs_.EnsureLate();
  return sandboxes_.List();
}

void Runtime::SetChangeHint(std::function<void(const PodUid&)> hint) {
  const std::lock_guard lock(hint_mutex_);
  hint_ = std::move(hint);
}

void Runtime::Hint(const PodUid& uid) {
  const std::lock_guard lock(hint_mutex_);
  if (hint_) hint_(uid);
}

Result<void> Runtime::HoldDevice(const PodUid& uid, const std::string& volume, int device) {
  return runtime::HoldDevice(parts_->keeper, uid, volume, device);
}

Result<model::BlockDevice> Runtime::HeldDevice(const PodUid& uid, const std::string& volume) {
  return runtime::HeldDevice(parts_->keeper, uid, volume);
}

Result<void> Runtime::LetGoOfDevice(const PodUid& uid, const std::string& volume) {
  return runtime::LetGoOfDevice(parts_->keeper, uid, volume);
}

Result<std::vector<Leftover>> Runtime::Audit(const std::vector<PodUid>& live, bool repair) {
  pool_.LookAgain();
  return auditor_.Run(live, repair);
}

bool Runtime::Resolve(const std::string& id) {
  const ContainerId container(id);
  if (const auto entry = parts_->table.Find(container)) return ResolveContainer(*entry);
  return half_made_.Resolve(container) && execs_.Resolve(id);
}

// Asks the keeper how it ended, adds what only the cgroup knows, and tells the agent.
bool Runtime::ResolveContainer(const TableEntry& entry) {
  if (entry.exit) return true;
  auto found = parts_->keeper.FindExit(entry.start, entry.process ? entry.process->get() : -1);
  if (!found || !*found) return false;
  model::ExitReport report = **found;
  if (!report.oom_killed) {
    auto cgroup = parts_->cgroups->OpenContainer(entry.brief.pod_uid, entry.brief.qos, entry.id);
    auto kills = cgroup ? parts_->cgroups->backend().OomKills(*cgroup) : Result<uint64_t>(0);
    if (kills && *kills > 0) {
      report.oom_killed = true;
      HOLDFAST_PAUSE_POINT("containers.oom_seen");
      // Ignored: until the container is removed the cgroup tells it again.
      (void)parts_->keeper.SetOomKilled(entry.id.value);
    }
  }
  if (parts_->table.SetExit(entry.id, report)) Hint(entry.brief.pod_uid);
  return true;
}

}  // namespace holdfast::runtime
