// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/start.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/rollback.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/containers/log_registrations.h"
#include "runtime/containers/teardown.h"

namespace holdfast::runtime {
namespace {

// Descriptors of the pod for the plan of a container, and what keeps them open.
struct PodAccess {
  PodDescriptors pod;
  std::shared_ptr<const Sandboxes::Descriptors> namespaces;
  Cgroup cgroup;
  std::vector<UniqueFd> owned;
};

using Phase = StartFailure::Phase;

// A launcher that dies takes one launch along; several in a row are not an accident.
constexpr int kMoreTries = 4;

std::unexpected<StartFailure> Fail(Phase phase, Error error) {
  return std::unexpected(StartFailure{phase, std::move(error)});
}

// With its parents; those are there for every container of the pod but the first.
Result<void> MakePath(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  if (errno != ENOENT || path.empty()) return Error::FromErrno(errno, StrCat("mkdir ", path));
  RETURN_IF_ERROR(MakePath(path.substr(0, path.rfind('/'))));
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return Error::FromErrno(errno, StrCat("mkdir ", path));
}

Result<void> MakeScratch(const model::ContainerSpec& spec) {
  RETURN_IF_ERROR(MakePath(spec.root_fs.scratch));
  HOLDFAST_PAUSE_POINT("containers.start.scratch");
  return {};
}

int FdOf(const Sandboxes::Descriptors& fds, const char* key) {
  const auto it = fds.find(key);
  return it == fds.end() ? -1 : it->second.get();
}

std::vector<DeviceRule> DeviceRules(const std::vector<model::DeviceSpec>& devices) {
  std::vector<DeviceRule> rules;
  for (const auto& [device, destination, read_only] : devices) {
    rules.push_back({'b', static_cast<int32_t>(device.major), static_cast<int32_t>(device.minor),
                     true, !read_only, true});
  }
  return rules;
}

bool SharesAllWithHost(const model::NamespaceSpec& spec) {
  using model::NamespaceMode;
  return spec.network == NamespaceMode::kHost && spec.ipc == NamespaceMode::kHost &&
         spec.uts == NamespaceMode::kHost && spec.pid != NamespaceMode::kPod;
}

// Its procfs is found in its mount namespace (launch/step_shared_mounts.cc). That it still runs is looked at last: as
// long as it does, its number was nobody else's.
Result<void> JoinProcessesOf(Parts& parts, const model::ContainerSpec& spec, PodAccess& access) {
  const ContainerId& id = spec.namespaces.pid_of;
  const auto target = parts.table.Find(id);
  const Error gone =
      Conflict(StrCat("container ", id.value, ", whose processes are to be seen, does not run"));
  if (!target || target->brief.pod_uid != spec.pod_uid || !target->process) return gone;
  auto pids = OpenNamespace(*target, "pid");
  auto mounts = OpenNamespace(*target, "mnt");
  if (HasEnded(*target)) return gone;
  if (!pids) return std::move(pids.error());
  if (!mounts) return std::move(mounts.error());
  access.pod.pid_namespace = pids->get();
  access.pod.procfs = mounts->get();
  access.owned.push_back(std::move(*pids));
  access.owned.push_back(std::move(*mounts));
  return {};
}

Result<Cgroup> MakeCgroup(Parts& parts, Sandboxes& sandboxes, const model::ContainerSpec& spec) {
  const auto make = [&] {
    return parts.cgroups->MakeContainer(spec.pod_uid, spec.qos, spec.id, spec.resources,
                                        spec.security.privileged, DeviceRules(spec.devices));
  };
  auto made = make();
  if (made || made.error().code() != Code::kNotFound) return made;
  RETURN_IF_ERROR(sandboxes.EnsureCgroup(spec.pod_uid));
  return make();
}

Result<PodAccess> OpenPodAccess(Parts& parts, Sandboxes& sandboxes,
                                const model::ContainerSpec& spec) {
  PodAccess access;
  access.pod.selinux_level = sandboxes.SelinuxLevel(spec.pod_uid);
  auto fds = sandboxes.Fds(spec.pod_uid);
  if (fds) {
    access.namespaces = *fds;
    access.pod.network_namespace = FdOf(**fds, "net");
    access.pod.ipc_namespace = FdOf(**fds, "ipc");
    access.pod.uts_namespace = FdOf(**fds, "uts");
    access.pod.pid_namespace = FdOf(**fds, "pid");
    access.pod.user_namespace = FdOf(**fds, "user");
    access.pod.user_map = parts.ids.Find(spec.pod_uid);
    if (access.pod.user_namespace >= 0 && access.pod.user_map.empty()) {
      return Unavailable("the ids of the pod's user namespace are not known");
    }
    access.pod.shm = FdOf(**fds, "shm");
    access.pod.procfs = FdOf(**fds, "proc");
  } else if (fds.error().code() != Code::kNotFound || !SharesAllWithHost(spec.namespaces)) {
    return std::move(fds.error()).Wrap(StrCat("namespaces of pod ", spec.pod_uid.value));
  }
  if (!spec.namespaces.pid_of.empty()) RETURN_IF_ERROR(JoinProcessesOf(parts, spec, access));
  ASSIGN_OR_RETURN(access.cgroup, MakeCgroup(parts, sandboxes, spec));
  RETURN_IF_ERROR(AddCgroup(parts.cgroups->backend().layout(), access.cgroup, access.cgroup,
                            access.pod, access.owned));
  return access;
}

// Puts the pipes' write ends into the plan's standard descriptors.
Result<void> ConnectLog(const keeper::LogPipes& pipes, PreparedPlan& prepared) {
  RETURN_IF_ERROR(pipes.GiveTo(prepared.host_uid, prepared.host_gid));
  auto& stdio = std::get<model::LaunchPlan>(prepared.plan).process.stdio;
  stdio.out = static_cast<model::FdIndex>(prepared.fds.size());
  prepared.fds.push_back(pipes.stdout_fd.get());
  stdio.err = static_cast<model::FdIndex>(prepared.fds.size());
  prepared.fds.push_back(pipes.stderr_fd.get());
  return {};
}

// `stdin: true`: a pipe whose write end the keeper holds, so that a read waits instead of ending.
Result<void> OpenStdin(Parts& parts, const model::ContainerSpec& spec, PodAccess& access) {
  if (!spec.stdin_open || spec.tty) return {};
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return Error::FromErrno(errno, "pipe2");
  UniqueFd read(fds[0]);
  const UniqueFd write(fds[1]);
  RETURN_IF_ERROR(parts.keeper.PutFds(StdinKey(spec.id), {write.get()}));
  access.pod.standard_input = read.get();
  access.owned.push_back(std::move(read));
  return {};
}

keeper::LaunchRequest MakeRequest(const model::ContainerSpec& spec, const PreparedPlan& prepared,
                                  int sealed_plan, const keeper::LogPipes& pipes) {
  keeper::LaunchRequest request;
  request.id = spec.id.value;
  request.attempt = spec.attempt;
  request.plan = sealed_plan;
  request.fds = prepared.fds;
  request.stdout_inode = pipes.stdout_inode;
  request.stderr_inode = pipes.stderr_inode;
  request.tag = EncodeRecord(BriefOf(spec));
  request.once = true;
  return request;
}

Phase PhaseOf(const keeper::LaunchFailure& failure) {
  return failure.step == "keeper" ? Phase::kCreate : Phase::kStart;
}

Starting Success(const model::ContainerSpec& spec, keeper::Launched launched,
                 const PreparedPlan& prepared, const keeper::LaunchRequest& request) {
  Starting result;
  result.started = {spec.id, launched.pid, launched.started_at, prepared.user};
  TableEntry& entry = result.entry;
  entry.id = spec.id;
  entry.brief = BriefOf(spec);
  entry.start = {request.id,           request.kind,         request.attempt,
                 launched.pid,         launched.start_ticks, launched.started_at,
                 request.stdout_inode, request.stderr_inode, request.tag};
  if (launched.pidfd) entry.process = std::make_shared<const PidFd>(std::move(launched.pidfd));
  return result;
}

// What the launcher will be given besides the log.
struct Preparation {
  PodAccess access;
  PreparedPlan plan;
};

std::expected<Preparation, StartFailure> Prepare(Parts& parts, Sandboxes& sandboxes,
                                                 const model::ContainerSpec& spec) {
  auto access = OpenPodAccess(parts, sandboxes, spec);
  if (!access) return Fail(Phase::kCreate, std::move(access.error()));
  HOLDFAST_PAUSE_POINT("containers.start.cgroup");
  if (auto opened = OpenStdin(parts, spec, *access); !opened) {
    return Fail(Phase::kCreate, std::move(opened.error()).Wrap("standard input"));
  }
  auto prepared = PrepareContainer(spec, parts.facts, access->pod);
  if (!prepared) return std::unexpected(std::move(prepared.error()));
  if (auto given = GiveStreams(access->pod, *prepared); !given) {
    return Fail(Phase::kCreate, std::move(given.error()));
  }
  return Preparation{std::move(*access), std::move(*prepared)};
}

std::unexpected<StartFailure> FailLog(Error error) {
  return Fail(Phase::kCreate, std::move(error).Wrap("log"));
}

// There are no pipes: the launcher hands over the terminal's master.
std::expected<Preparation, StartFailure> PrepareWithTerminal(Parts& parts, Sandboxes& sandboxes,
                                                             const model::ContainerSpec& spec) {
  if (auto made = MakeScratch(spec); !made) return Fail(Phase::kCreate, std::move(made.error()));
  auto prepared = Prepare(parts, sandboxes, spec);
  if (!prepared) return prepared;
  auto registered = parts.keeper.RegisterTtyLog(spec.id, spec.log);
  if (!registered) return FailLog(std::move(registered.error()));
  return prepared;
}

// Holder and logger work while we do.
std::expected<Preparation, StartFailure> PrepareWithPipes(Parts& parts, Sandboxes& sandboxes,
                                                          const model::ContainerSpec& spec,
                                                          keeper::PendingLog& log,
                                                          keeper::LogPipes& pipes) {
  const auto made = MakeScratch(spec);
  if (auto sent = log.Register(); !sent) return FailLog(std::move(sent.error()));
  if (!made) return Fail(Phase::kCreate, made.error());
  auto prepared = Prepare(parts, sandboxes, spec);
  if (!prepared) return prepared;
  pipes = log.TakePipes();
  if (auto connected = ConnectLog(pipes, prepared->plan); !connected) {
    return FailLog(std::move(connected.error()));
  }
  return prepared;
}

// A launch that failed; `cut_short`: because its launcher died.
struct LaunchFailed {
  StartFailure failure;
  bool cut_short = false;
};

std::expected<Starting, LaunchFailed> LaunchPrepared(
    Parts& parts, const model::ContainerSpec& spec,
    std::expected<Preparation, StartFailure> prepared, const keeper::LogPipes& pipes) {
  if (!prepared) return std::unexpected(LaunchFailed{std::move(prepared.error())});
  HOLDFAST_PAUSE_POINT("containers.start.log");
  auto sealed = SealPlan(prepared->plan.plan);
  if (!sealed) return std::unexpected(LaunchFailed{{Phase::kCreate, std::move(sealed.error())}});
  const keeper::LaunchRequest request = MakeRequest(spec, prepared->plan, sealed->get(), pipes);
  auto launched = parts.keeper.Launch(request);
  if (!launched) {
    const keeper::LaunchFailure& failure = launched.error();
    return std::unexpected(
        LaunchFailed{{PhaseOf(failure), ExplainLaunch(parts, spec.pod_uid, spec.qos, failure)},
                     failure.cut_short});
  }
  HOLDFAST_PAUSE_POINT("containers.start.launched");
  return Success(spec, std::move(*launched), prepared->plan, request);
}

// Everything after the record; the caller takes away what was made when this fails. The logger may be
// busy with somebody else's log, so the program does not wait for its answer: what it writes until then is in
// the pipes, and who dies in between leaves that to LogRegistrations, as does who has waited in vain.
std::expected<Starting, LaunchFailed> MakeAndLaunch(Parts& parts, Sandboxes& sandboxes,
                                                    const model::ContainerSpec& spec) {
  if (spec.tty) {
    return LaunchPrepared(parts, spec, PrepareWithTerminal(parts, sandboxes, spec), {});
  }
  auto log = parts.keeper.BeginLog(spec.id, spec.log);
  if (!log) return std::unexpected(LaunchFailed{FailLog(std::move(log.error())).error()});
  keeper::LogPipes pipes;
  auto prepared = PrepareWithPipes(parts, sandboxes, spec, *log, pipes);
  auto started = LaunchPrepared(parts, spec, std::move(prepared), pipes);
  auto registered = log->Await();  // in any case: at a teardown nothing may be under way
  HOLDFAST_PAUSE_POINT("containers.start.registered");
  if (!started || registered) return started;
  if (!LogRegistrations::IsNoAnswer(registered.error())) {
    return std::unexpected(LaunchFailed{FailLog(std::move(registered.error())).error()});
  }
  started->log_is_late = true;
  return started;
}

std::expected<Starting, LaunchFailed> TryStart(Parts& parts, Sandboxes& sandboxes,
                                               const model::ContainerSpec& spec) {
  auto recorded = parts.state.Put(ContainerRecord{spec, parts.clock.Wall()});
  if (!recorded)
    return std::unexpected(LaunchFailed{{Phase::kCreate, std::move(recorded.error())}});
  auto result = MakeAndLaunch(parts, sandboxes, spec);
  // Ignored: what cannot be taken away now has its record still, and the audit finds it.
  if (!result) (void)TearDown(parts, spec.id, BriefOf(spec));
  return result;
}

}  // namespace

std::expected<void, StartFailure> CheckSpec(const model::ContainerSpec& spec) {
  if (!IsSafeName(spec.id.value)) {
    return Fail(Phase::kCreate, InvalidArgument(StrCat("container id \"", spec.id.value,
                                                       "\" cannot name a directory")));
  }
  if (!IsSafeName(spec.pod_uid.value)) {
    return Fail(Phase::kCreate, InvalidArgument(StrCat("pod uid \"", spec.pod_uid.value,
                                                       "\" cannot name a directory")));
  }
  if (spec.argv.empty()) return Fail(Phase::kCreate, InvalidArgument("no command specified"));
  if (!spec.root_fs.scratch.starts_with('/')) {
    return Fail(Phase::kCreate, InvalidArgument(StrCat("scratch directory \"", spec.root_fs.scratch,
                                                       "\" is not absolute")));
  }
  return {};
}

std::expected<Starting, StartFailure> StartContainer(Parts& parts, Sandboxes& sandboxes,
                                                     const model::ContainerSpec& spec) {
  auto result = TryStart(parts, sandboxes, spec);
  for (int more = kMoreTries; more > 0 && !result && result.error().cut_short; --more) {
    result = TryStart(parts, sandboxes, spec);
  }
  if (!result) return std::unexpected(std::move(result.error().failure));
  return std::move(*result);
}

}  // namespace holdfast::runtime
