// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/launch.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/process.h"
#include "holdfast/sys/socket.h"
#include "runtime/launch/child.h"
#include "runtime/launch/parent.h"
#include "runtime/launch/protocol.h"

namespace holdfast::runtime {
namespace {

constexpr std::chrono::seconds kUnshareLimit{2};
constexpr std::chrono::seconds kPrepareLimit{5};

// Whose place a successor has taken.
void ReapFirstChild(int pidfd) {
  pollfd event{pidfd, POLLIN, 0};
  (void)::poll(&event, 1, 1000);
  (void)sys::ReapExit(pidfd);
}

BootTime Now() { return SystemClock().Boot(); }

int PollTimeoutMs(BootTime deadline) {
  const auto left = deadline - Now();
  if (left <= std::chrono::nanoseconds(0)) return 0;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<int64_t>(ms, 1000));
}

NsFd AsNamespace(UniqueFd fd) { return NsFd(fd.Release()); }

void TakeSandbox(Report& report, SandboxFds& out) {
  for (size_t i = 0; i < report.fds.size() && i < report.text.size(); ++i) {
    UniqueFd fd = std::move(report.fds[i]);
    switch (report.text[i]) {
      case 'n':
        out.network = AsNamespace(std::move(fd));
        break;
      case 'i':
        out.ipc = AsNamespace(std::move(fd));
        break;
      case 'u':
        out.uts = AsNamespace(std::move(fd));
        break;
      case 'U':
        out.user = AsNamespace(std::move(fd));
        break;
      case 'p':
        out.pid = AsNamespace(std::move(fd));
        break;
      case 's':
        out.shm = std::move(fd);
        break;
      case 'P':
        out.proc = std::move(fd);
        break;
      default:
        break;
    }
  }
}

}  // namespace

struct PendingLaunch::State {
  const LaunchContext* context = nullptr;
  pid_t pid = 0;
  uint64_t start_ticks = 0;
  PidFd pidfd;
  UniqueFd socket;
  UniqueFd childs_end;  // of the socket, until the child has its own copy
  BootTime deadline;
  bool ends_with_sandbox = false;  // a SandboxPlan without an init: no exec will follow
  bool waits_for_go = true;
  bool late = false;  // IsBornLate(plan)
  bool born = true;
  bool may_go = false;  // Go() was called before the birth
  bool executing = false;
  bool given = false;  // the outcome
  LaunchOutcome outcome;
  std::function<void(int)> keep_terminal;
  std::function<Result<void>(int)> on_birth;

  LaunchOutcome Give(LaunchOutcome::State state) {
    given = true;
    outcome.state = state;
    return std::move(outcome);
  }
  LaunchOutcome Fail(std::string step, Error error) {
    outcome.step = std::move(step);
    outcome.error = std::move(error);
    return Give(LaunchOutcome::State::kFailed);
  }
  std::optional<LaunchOutcome> Take(Report report);
  std::optional<LaunchOutcome> TakeFailure(Report report);
  void TakeTerminal(Report report);
  Result<PidFd> TakeSuccessor(const Report& report);
  Result<void> Birth(const Report& report);
  Result<void> LetLateOneGo();
  LaunchOutcome AtEndOfFile();
  bool Ended() const {
    auto exit = sys::PeekExit(pidfd.get());
    return !exit || exit->has_value();
  }
};

std::optional<LaunchOutcome> PendingLaunch::State::TakeFailure(Report report) {
  const bool at_exec = report.at_exec;
  LaunchOutcome failed =
      Fail(std::move(report.step), Error(report.code, report.sys_errno, std::move(report.text)));
  if (at_exec) failed.state = LaunchOutcome::State::kExecFailed;
  return failed;
}

void PendingLaunch::State::TakeTerminal(Report report) {
  if (!report.fds.empty()) outcome.pty_master = std::move(report.fds[0]);
  // Who is not born yet has no record yet that the terminal could belong to.
  if (born && keep_terminal && outcome.pty_master) keep_terminal(outcome.pty_master.get());
  (void)SendGo(socket.get());  // a child that is gone already is Poll()'s to explain
}

// Returns the first child, which exits right after its report, for ReapFirstChild(). The process is
// a child of the launcher too, so its pid stays its own until it is reaped.
Result<PidFd> PendingLaunch::State::TakeSuccessor(const Report& report) {
  const pid_t next = std::atoi(report.text.c_str());
  if (next <= 0) return Internal("launch: malformed successor");
  ASSIGN_OR_RETURN(PidFd process, sys::OpenPidFd(next));
  ASSIGN_OR_RETURN(UniqueFd high, MoveAboveLowFds(UniqueFd(process.Release())));
  pid = next;
  return std::exchange(pidfd, PidFd(high.Release()));
}

Result<void> PendingLaunch::State::Birth(const Report& report) {
  ASSIGN_OR_RETURN(const PidFd first, TakeSuccessor(report));
  ASSIGN_OR_RETURN(start_ticks, sys::StartTicks(context->proc.get(), pid));
  born = true;
  if (on_birth) RETURN_IF_ERROR(on_birth(first.get()));
  if (keep_terminal && outcome.pty_master) keep_terminal(outcome.pty_master.get());
  auto gone = may_go ? LetLateOneGo() : Result<void>();
  ReapFirstChild(first.get());  // last: its end takes a while, and nothing waits for that
  return gone;
}

// It has nothing left to do but to execute the program.
Result<void> PendingLaunch::State::LetLateOneGo() {
  executing = true;
  return SendGo(socket.get());
}

std::optional<LaunchOutcome> PendingLaunch::State::Take(Report report) {
  // The other end may be in anybody's hands once the process is one of its pod's.
  if (executing && report.kind != ReportKind::kFailure) {
    return Fail("protocol", Internal("unexpected report of the process"));
  }
  switch (report.kind) {
    case ReportKind::kWarning:
      outcome.warnings.push_back(std::move(report.text));
      return std::nullopt;
    case ReportKind::kTerminal:
      TakeTerminal(std::move(report));
      return std::nullopt;
    case ReportKind::kSuccessor: {
      if (born) return Fail("protocol", Internal("unexpected birth"));
      auto birth = Birth(report);
      if (birth) return std::nullopt;
      (void)sys::SendSignal(pidfd.get(), SIGKILL);
      return Fail("birth", std::move(birth.error()));
    }
    case ReportKind::kSandbox:
      TakeSandbox(report, outcome.sandbox);
      if (ends_with_sandbox) return Give(LaunchOutcome::State::kRunning);
      return std::nullopt;
    case ReportKind::kExecuting:
      executing = true;
      return std::nullopt;
    case ReportKind::kFailure:
      return TakeFailure(std::move(report));
    default:
      return Fail("protocol", Internal("unexpected report of the child"));
  }
}

LaunchOutcome PendingLaunch::State::AtEndOfFile() {
  if (executing) return Give(LaunchOutcome::State::kRunning);
  std::string how = "the child ended before it could execute the command";
  if (auto exit = sys::PeekExit(pidfd.get()); exit && *exit && (*exit)->signal != 0) {
    how += StrCat(" (signal ", (*exit)->signal, ")");
  }
  return Fail("launch", Internal(std::move(how)));
}

PendingLaunch::PendingLaunch(std::unique_ptr<State> state) : state_(std::move(state)) {}
PendingLaunch::PendingLaunch(PendingLaunch&&) noexcept = default;
PendingLaunch& PendingLaunch::operator=(PendingLaunch&& other) noexcept {
  // The old one goes the way of the destructor.
  PendingLaunch old(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}
PendingLaunch::~PendingLaunch() {
  // ESRCH: it has ended already.
  if (state_ && !state_->given) (void)sys::SendSignal(state_->pidfd.get(), SIGKILL);
}

bool PendingLaunch::born() const { return state_->born; }
pid_t PendingLaunch::pid() const { return state_->pid; }
uint64_t PendingLaunch::start_ticks() const { return state_->start_ticks; }
int PendingLaunch::pidfd() const { return state_->pidfd.get(); }
int PendingLaunch::report_fd() const { return state_->socket.get(); }
BootTime PendingLaunch::deadline() const { return state_->deadline; }

void PendingLaunch::OnBirth(std::function<Result<void>(int former_pidfd)> born) {
  state_->on_birth = std::move(born);
}

void PendingLaunch::OnTerminal(std::function<void(int master)> keep) {
  state_->keep_terminal = std::move(keep);
}

PidFd PendingLaunch::DuplicatePidFd() const {
  return PidFd(::fcntl(state_->pidfd.get(), F_DUPFD_CLOEXEC, kLowFdBound));
}

Result<void> PendingLaunch::Go() {
  HOLDFAST_PAUSE_POINT("launch.before_go");
  if (state_->late) {
    state_->may_go = true;
    return state_->born ? state_->LetLateOneGo() : Result<void>();
  }
  return state_->waits_for_go ? SendGo(state_->socket.get()) : Result<void>();
}

std::optional<LaunchOutcome> PendingLaunch::Poll() {
  if (state_->given) return std::nullopt;
  // Asked first: what a child sent before its end is in the queue by then.
  bool ended = state_->Ended();
  for (;;) {
    auto report = ReceiveReport(state_->socket.get());
    if (!report) {
      (void)sys::SendSignal(state_->pidfd.get(), SIGKILL);
      return state_->Fail("protocol", std::move(report.error()));
    }
    if (report->kind == ReportKind::kNothing) break;
    if (report->kind == ReportKind::kEndOfFile) {
      // Its descriptors close a moment before its exit status can be had.
      if (!state_->executing && !ended) break;
      return state_->AtEndOfFile();
    }
    if (report->kind == ReportKind::kSuccessor) ended = false;  // that was the first child
    if (auto outcome = state_->Take(std::move(*report))) return outcome;
  }
  // No end-of-file although it ended: another child holds a copy of its socket for a moment.
  if (ended) return state_->AtEndOfFile();
  if (Now() < state_->deadline) return std::nullopt;
  (void)sys::SendSignal(state_->pidfd.get(), SIGKILL);
  return state_->Fail("launch", Error(Code::kDeadlineExceeded, "the time limit is over"));
}

LaunchOutcome PendingLaunch::Wait() {
  for (;;) {
    if (auto outcome = Poll()) return std::move(*outcome);
    pollfd events[2] = {{report_fd(), POLLIN, 0}, {pidfd(), POLLIN, 0}};
    (void)::poll(events, 2, PollTimeoutMs(deadline()));  // EINTR: Poll() decides
  }
}

Result<UniqueFd> MoveAboveLowFds(UniqueFd fd) {
  const int moved = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, kLowFdBound);
  if (moved < 0) return Error::FromErrno(errno, "fcntl F_DUPFD_CLOEXEC");
  return UniqueFd(moved);
}

// Builds a PendingLaunch; what it holds is killed and reaped when a step fails.
class LaunchBuilder {
 public:
  LaunchBuilder(const LaunchContext& context, char* begun) : context_(context), begun_(begun) {}
  ~LaunchBuilder() {
    if (!state_ || !state_->pidfd) return;
    (void)sys::SendSignal(state_->pidfd.get(), SIGKILL);  // ESRCH: it has ended already
    pollfd event{state_->pidfd.get(), POLLIN, 0};
    (void)::poll(&event, 1,
                 1000);  // SIGKILL is prompt; a child stuck in the kernel is left to init
    (void)sys::ReapExit(state_->pidfd.get());
  }

  Result<PendingLaunch> Run(const model::Plan& plan, std::span<const UniqueFd> fds,
                            std::chrono::nanoseconds time_limit) {
    state_ = std::make_unique<PendingLaunch::State>();
    state_->deadline = Now() + time_limit;
    const auto* sandbox = std::get_if<model::SandboxPlan>(&plan);
    state_->ends_with_sandbox = sandbox != nullptr && sandbox->init_binary == model::kNoFd;

    state_->context = &context_;
    state_->waits_for_go = WaitsForGo(plan);
    state_->late = IsBornLate(plan);
    state_->born = !state_->late;
    RETURN_IF_ERROR(CloneChild(plan, fds));
    if (HasSuccessor(plan)) {
      RETURN_IF_ERROR(Await(ReportKind::kUnshared, kUnshareLimit));
      RETURN_IF_ERROR(AwaitSuccessor());
      RETURN_IF_ERROR(PutInPlace(plan));
    } else {
      // While the child copies the table. What this opens and closes is not among what it keeps.
      RETURN_IF_ERROR(PutInPlace(plan));
      RETURN_IF_ERROR(Await(ReportKind::kUnshared, kUnshareLimit));
    }
    HOLDFAST_PAUSE_POINT("launch.cloned");
    // From here on any descriptor may be closed again.
    state_->childs_end.Reset();
    ASSIGN_OR_RETURN(UniqueFd high, MoveAboveLowFds(UniqueFd(state_->pidfd.Release())));
    state_->pidfd = PidFd(high.Release());
    return PendingLaunch(std::move(state_));
  }

 private:
  // Until the child has reported kUnshared, what it keeps must not be closed.
  Result<void> CloneChild(const model::Plan& plan, std::span<const UniqueFd> fds) {
    ASSIGN_OR_RETURN(auto ends, sys::SeqpacketPair());
    if (::fcntl(ends.first.get(), F_SETFL, O_NONBLOCK) != 0) {
      return Error::FromErrno(errno, "fcntl O_NONBLOCK");
    }
    const bool successor = HasSuccessor(plan);
    auto cloned = successor ? sys::Clone(CLONE_FILES)
                            : sys::Clone(CLONE_FILES | CloneFlags(plan), CgroupToEnter(plan, fds));
    if (cloned && cloned->pid == 0) RunChild(context_, plan, fds, ends.second.get(), begun_);
    if (!cloned) return std::move(cloned.error());
    state_->pid = cloned->pid;
    state_->pidfd = std::move(cloned->pidfd);
    state_->socket = std::move(ends.first);
    state_->childs_end = std::move(ends.second);
    return {};
  }

  Result<void> PutInPlace(const model::Plan& plan) {
    RETURN_IF_ERROR(WriteIdMaps(context_, plan, state_->pid));
    HOLDFAST_PAUSE_POINT("launch.identified");
    ASSIGN_OR_RETURN(state_->start_ticks, sys::StartTicks(context_.proc.get(), state_->pid));
    return {};
  }

  // The first child prepares what takes the launcher's rights, clones the container's process (a
  // child of the launcher too) and exits.
  Result<void> AwaitSuccessor() {
    ASSIGN_OR_RETURN(const Report report, Await(ReportKind::kSuccessor, kPrepareLimit));
    ASSIGN_OR_RETURN(const PidFd first, state_->TakeSuccessor(report));
    ReapFirstChild(first.get());
    return {};
  }

  Result<Report> Await(ReportKind wanted, std::chrono::seconds at_most) {
    const BootTime limit = std::min(state_->deadline, Now() + at_most);
    for (;;) {
      const bool ended = state_->Ended();
      ASSIGN_OR_RETURN(Report report, ReceiveReport(state_->socket.get()));
      if (report.kind == wanted) return report;
      if (report.kind == ReportKind::kWarning) {
        state_->outcome.warnings.push_back(std::move(report.text));
        continue;
      }
      if (report.kind == ReportKind::kFailure) {
        return Error(report.code, report.sys_errno, StrCat(report.step, ": ", report.text));
      }
      // The launcher itself still holds the child's end, so only the pidfd tells of its death.
      if (ended) return Internal("launch: the child ended before it was ready");
      if (Now() >= limit)
        return Error(Code::kDeadlineExceeded, "launch: the child is not ready in time");
      pollfd events[2] = {{state_->socket.get(), POLLIN, 0}, {state_->pidfd.get(), POLLIN, 0}};
      (void)::poll(events, 2, PollTimeoutMs(limit));  // EINTR: asked again
    }
  }

  const LaunchContext& context_;
  char* begun_;
  std::unique_ptr<PendingLaunch::State> state_;
};

Result<PendingLaunch> Launch(const LaunchContext& context, const model::Plan& plan,
                             std::span<const UniqueFd> fds, std::chrono::nanoseconds time_limit,
                             char* begun) {
  return LaunchBuilder(context, begun).Run(plan, fds, time_limit);
}

}  // namespace holdfast::runtime
