// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/exec.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "holdfast/base/rollback.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/containers/pipe.h"

namespace holdfast::runtime {
namespace {

// Our ends and the process' ends of its standard descriptors.
struct Streams {
  UniqueFd in, out, err;  // ours
  UniqueFd their_in, their_out, their_err;
};

Result<Streams> MakeStreams(const ExecSpec& spec) {
  Streams streams;
  if (spec.tty) return streams;  // the pty's master comes back from the launch
  if (spec.stdin_open) {
    ASSIGN_OR_RETURN(Pipe in, MakePipe());
    streams.in = std::move(in.write);
    streams.their_in = std::move(in.read);
  }
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  streams.out = std::move(out.read);
  streams.their_out = std::move(out.write);
  ASSIGN_OR_RETURN(Pipe err, MakePipe());
  streams.err = std::move(err.read);
  streams.their_err = std::move(err.write);
  return streams;
}

class Session final : public ExecSession {
 public:
  Session(Parts& parts, ExecReaper& reaper, std::shared_ptr<const Cgroup> container,
          keeper::StartRecord start, PidFd process, UniqueFd gone, Streams streams,
          UniqueFd terminal)
      : parts_(parts),
        reaper_(reaper),
        container_(std::move(container)),
        start_(std::move(start)),
        process_(std::move(process)),
        gone_(std::move(gone)),
        streams_(std::move(streams)),
        terminal_(std::move(terminal)) {}
  ~Session() override {
    if (!report_) {
      (void)Signal(SIGKILL);                           // ESRCH: it has just ended
      (void)KillExec(parts_, *container_, start_.id);  // the container's removal tries it again
    }
    reaper_.Abandon(start_.id, terminal_.valid(), container_);
  }

  int stdin_fd() const override { return terminal_ ? terminal_.get() : streams_.in.get(); }
  int stdout_fd() const override { return terminal_ ? terminal_.get() : streams_.out.get(); }
  int stderr_fd() const override { return streams_.err.get(); }
  void CloseStdin() override { streams_.in.Reset(); }
  int ended_fd() const override { return process_ ? process_.get() : gone_.get(); }

  Result<void> Resize(uint16_t rows, uint16_t columns) override {
    if (!terminal_) return InvalidArgument("the command has no terminal");
    winsize size{};
    size.ws_row = rows;
    size.ws_col = columns;
    if (::ioctl(terminal_.get(), TIOCSWINSZ, &size) != 0)
      return Error::FromErrno(errno, "TIOCSWINSZ");
    return {};
  }

  Result<void> Signal(int signal) override {
    if (!process_) return {};
    if (::syscall(SYS_pidfd_send_signal, process_.get(), signal, nullptr, 0) == 0) return {};
    if (errno == ESRCH) return {};
    return Error::FromErrno(errno, StrCat("signal ", signal, " to exec ", start_.id));
  }

  Result<model::ExitReport> Wait() override;

 private:
  Parts& parts_;
  ExecReaper& reaper_;
  const std::shared_ptr<const Cgroup> container_;
  const keeper::StartRecord start_;
  const PidFd process_;
  const UniqueFd gone_;
  Streams streams_;
  UniqueFd terminal_;
  std::optional<model::ExitReport> report_;
};

Result<model::ExitReport> Session::Wait() {
  using std::chrono::microseconds;
  microseconds pause{100};
  while (!report_) {
    pollfd ended{ended_fd(), POLLIN, 0};
    if (::poll(&ended, 1, -1) < 0 && errno != EINTR) return Error::FromErrno(errno, "poll pidfd");
    if (ended.revents == 0) continue;
    ASSIGN_OR_RETURN(report_, parts_.keeper.FindExit(start_, process_.get()));
    // The keeper writes the record between the end and the reaping; it is a moment away.
    if (report_) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, microseconds(1000));
  }
  return *report_;
}

// A launch that was cut short, and tried again, finds a short program gone: nobody can open a pidfd any more. Then a
// descriptor that is readable from the beginning stands in for it.
Result<UniqueFd> StandInForEnded(const PidFd& process) {
  if (process) return UniqueFd();
  UniqueFd gone(::eventfd(1, EFD_CLOEXEC));
  if (!gone) return Error::FromErrno(errno, "eventfd");
  return gone;
}

constexpr std::string_view kCgroupPrefix = "exec-";

std::string CgroupName(const std::string& id) { return StrCat(kCgroupPrefix, id); }

enum class CgroupEnd {
  kGone,      // or it cannot go for a reason that time does not mend
  kOccupied,  // a process is in it
  kSoon,      // its last process is being taken away by the kernel
};

CgroupEnd RemoveExecCgroup(const Cgroup& container, const std::string& id) {
  const auto removed = RemoveEmptyChild(container, CgroupName(id));
  if (removed || removed.error().sys_errno() != EBUSY) return CgroupEnd::kGone;
  const auto cgroup = OpenChild(container, CgroupName(id));
  if (!cgroup) return CgroupEnd::kSoon;
  // Who has ended is not listed, while rmdir(2) may say EBUSY until the kernel is done with it.
  const auto processes = Processes(*cgroup);
  return processes && processes->empty() ? CgroupEnd::kSoon : CgroupEnd::kOccupied;
}

Error ToPlain(StartFailure failure) { return std::move(failure.error); }

}  // namespace

Result<std::map<std::string, std::shared_ptr<const Cgroup>>> FindExecCgroups(Parts& parts) {
  std::map<std::string, std::shared_ptr<const Cgroup>> found;
  for (const TableEntry& entry : parts.table.List()) {
    auto opened = parts.cgroups->OpenContainer(entry.brief.pod_uid, entry.brief.qos, entry.id);
    if (!opened && opened.error().code() == Code::kNotFound) continue;
    if (!opened) return std::move(opened.error());
    const auto container =
        std::make_shared<const Cgroup>(TakeGrouping(parts.cgroups->backend().layout(), *opened));
    ASSIGN_OR_RETURN(const std::vector<std::string> names, ListChildren(*container));
    for (const std::string& name : names) {
      if (name.starts_with(kCgroupPrefix)) found[name.substr(kCgroupPrefix.size())] = container;
    }
  }
  return found;
}

Result<void> KillExec(Parts& parts, const Cgroup& container, const std::string& id) {
  auto cgroup = OpenChild(container, CgroupName(id));
  if (!cgroup && cgroup.error().code() == Code::kNotFound) return {};
  if (!cgroup) return std::move(cgroup.error());
  return parts.cgroups->backend().KillAll(*cgroup);
}

void ExecReaper::Abandon(const std::string& id, bool terminal,
                         std::shared_ptr<const Cgroup> container) {
  {
    const std::lock_guard lock(mutex_);
    abandoned_[id] = {terminal, std::move(container)};
  }
  ask_(id);
}

void ExecReaper::Undo(const std::string& id, std::shared_ptr<const Cgroup> container) {
  if (RemoveExecCgroup(*container, id) == CgroupEnd::kGone) return;
  (void)KillExec(parts_, *container, id);  // what is left ends with the container at the latest
  {
    const std::lock_guard lock(mutex_);
    abandoned_[id] = {false, std::move(container), true};
  }
  ask_(id);
}

bool ExecReaper::Resolve(const std::string& id) {
  Abandoned exec;
  {
    const std::lock_guard lock(mutex_);
    const auto it = abandoned_.find(id);
    if (it == abandoned_.end()) return true;
    exec = it->second;
  }
  auto start = parts_.keeper.FindStart(id);
  if (!start) return false;
  if (*start) {
    auto report = parts_.keeper.FindExit(**start);
    if (!report || !*report) return false;
  }
  if (exec.container) {
    const CgroupEnd end = RemoveExecCgroup(*exec.container, id);
    if (end == CgroupEnd::kSoon || (end == CgroupEnd::kOccupied && exec.doomed)) return false;
  }
  if (*start) {
    if (exec.terminal && !parts_.keeper.UnregisterLog(ContainerId(id))) return false;
    if (!parts_.keeper.Forget(id)) return false;
  }
  const std::lock_guard lock(mutex_);
  abandoned_.erase(id);
  return true;
}

void RemoveFormerExec(const Cgroup& container, const std::string& id) {
  // Whoever is left in it, or on his way out: it goes with the container.
  (void)RemoveExecCgroup(container, id);
}

Result<std::unique_ptr<ExecSession>> StartExec(Parts& parts, ExecReaper& reaper,
                                               const TableEntry& container, const ExecSpec& spec) {
  if (spec.argv.empty()) return InvalidArgument("no command given");
  ASSIGN_OR_RETURN(const ContainerRecord record, parts.state.Container(container.id));
  ASSIGN_OR_RETURN(Streams streams, MakeStreams(spec));
  const std::string id = NewContainerId().value;
  ASSIGN_OR_RETURN(Cgroup opened, parts.cgroups->OpenContainer(container.brief.pod_uid,
                                                               container.brief.qos, container.id));
  const CgroupLayout& layout = parts.cgroups->backend().layout();
  const auto parent = std::make_shared<const Cgroup>(TakeGrouping(layout, opened));
  Rollback undo;
  undo.Add([&] { reaper.Undo(id, parent); });
  ASSIGN_OR_RETURN(const MadeCgroup made, MakeChild(*parent, CgroupName(id)));
  HOLDFAST_PAUSE_POINT("containers.exec_cgroup_made");
  PodDescriptors pod;
  std::vector<UniqueFd> owned;
  RETURN_IF_ERROR(AddCgroup(layout, made.cgroup, opened, pod, owned));
  ASSIGN_OR_RETURN(const SandboxRecord sandbox, parts.state.Sandbox(container.brief.pod_uid));
  pod.selinux_level = sandbox.selinux_level;
  pod.user_map = parts.ids.Find(container.brief.pod_uid);
  if (pod.user_map.empty() && !sandbox.spec.host_users) {
    return Unavailable("the ids of the pod's user namespace are not known");
  }
  pod.standard_input = streams.their_in.get();
  pod.standard_output = streams.their_out.get();
  pod.standard_error = streams.their_err.get();
  auto prepared = PrepareExec(record.spec, spec, parts.facts, pod, container.process->get());
  if (!prepared) return ToPlain(std::move(prepared.error()));
  RETURN_IF_ERROR(GiveStreams(pod, *prepared));
  ASSIGN_OR_RETURN(const UniqueFd sealed, SealPlan(prepared->plan));

  keeper::LaunchRequest request;
  request.id = id;
  request.kind = keeper::ProcessKind::kExec;
  request.plan = sealed.get();
  request.fds = prepared->fds;
  auto launched = parts.keeper.Launch(request);
  if (!launched) {
    return ExplainLaunch(parts, container.brief.pod_uid, container.brief.qos, launched.error());
  }
  ASSIGN_OR_RETURN(UniqueFd gone, StandInForEnded(launched->pidfd));
  undo.Release();
  HOLDFAST_PAUSE_POINT("containers.exec_launched");
  keeper::StartRecord start{
      request.id, request.kind, 0, launched->pid, launched->start_ticks, launched->started_at, 0, 0,
      {}};
  streams.their_in.Reset();
  streams.their_out.Reset();
  streams.their_err.Reset();
  return std::unique_ptr<ExecSession>(std::make_unique<Session>(
      parts, reaper, parent, std::move(start), std::move(launched->pidfd), std::move(gone),
      std::move(streams), std::move(launched->pty_master)));
}

}  // namespace holdfast::runtime
