// SPDX-License-Identifier: Apache-2.0
// Launcher, the launches themselves: clone, start record, "go", outcome, answer.
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/socket.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/messages.h"
#include "runtime/keeper/common/paths.h"
#include "runtime/keeper/common/process_info.h"
#include "runtime/keeper/launch/launcher.h"
#include "runtime/plan/wire.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::chrono::seconds kLaunchLimit{30};

// The first descriptor is the plan; the others are the plan's own.
Result<model::Plan> ReadPlan(const Message& message) {
  if (message.fds.empty()) return InvalidArgument("launch: no plan");
  if (::lseek(message.fds[0].get(), 0, SEEK_SET) < 0) {
    return Error::FromErrno(errno, "launch: lseek plan");
  }
  ASSIGN_OR_RETURN(const std::string bytes, sys::ReadFd(message.fds[0].get(), kMaxPlanBytes));
  return ParsePlan(bytes, message.fds.size() - 1);
}

std::string TerminalKey(const std::string& process) {
  return MakeLogKey(process, LogPart::kTerminal);
}

}  // namespace

void Launcher::HandleLaunch(PacketServer::ConnectionId id, Message& message) {
  auto start = DecodeLaunch(message.payload);
  if (!start) return serving_.server().Fail(id, start.error());
  if (!IsValidId(start->id))
    return serving_.server().Fail(id, InvalidArgument("launch: id is not valid"));
  if (retired_) return serving_.server().Fail(id, Unavailable("launcher: retired"));
  if (AnswerKnownLaunch(id, start->id)) return;

  BegunMark begun(records_, start->id);
  auto launch = CloneOrAnswer(id, message, begun.place());
  if (!launch) return;
  Pending pending{std::move(*launch), std::move(*start), std::nullopt, {id}, std::move(begun)};
  if (pending.launch.born()) {
    auto recorded = RecordStart(pending);
    if (!recorded)
      return serving_.server().Fail(id, recorded.error());  // `pending` kills the child
  }
  const std::string key = pending.start.id;
  if (auto tracked = Track(key, std::move(pending)); !tracked) {
    (void)records_.RemoveStart(key);  // the answer below matters more
    serving_.server().Fail(id, tracked.error());
  }
}

Result<void> Launcher::RecordStart(Pending& pending) {
  pending.start.pid = pending.launch.pid();
  pending.start.start_ticks = pending.launch.start_ticks();
  pending.start.started_at = clock_.Wall();
  RETURN_IF_ERROR(records_.WriteStart(pending.start));
  HOLDFAST_PAUSE_POINT("launcher.after-start-record");
  reaper_->Expect(pending.start);
  return {};
}

// The process itself is watched from here on, in place of the child that prepared it.
Result<void> Launcher::RecordBirth(const std::string& key, int former_pidfd) {
  HOLDFAST_PAUSE_POINT("launcher.born");
  Pending& pending = pending_.at(key);
  serving_.loop().Remove(former_pidfd);
  RETURN_IF_ERROR(RecordStart(pending));
  return serving_.loop().Add(pending.launch.pidfd(), EPOLLIN,
                             [this, key](uint32_t) { PollPending(key); });
}

void Launcher::HandleFindLaunch(PacketServer::ConnectionId id, Message& message) {
  const std::string process = Decoder(message.payload).Text();
  if (!IsValidId(process))
    return serving_.server().Fail(id, InvalidArgument("launch: id is not valid"));
  if (AnswerKnownLaunch(id, process)) return;
  serving_.server().Fail(id,
                         NotFound(StrCat("launch ", process, ": the launcher that had it ended")));
}

void Launcher::HandleSandbox(PacketServer::ConnectionId id, Message& message) {
  Decoder in(message.payload);
  const SandboxName pod = PodSandbox(PodUid(in.Text()));
  const SandboxName member = PoolMember(in.AtEnd() ? "" : in.Text());
  if (!IsValidId(pod.id))
    return serving_.server().Fail(id, InvalidArgument("sandbox: uid not valid"));
  if (retired_) return serving_.server().Fail(id, Unavailable("launcher: retired"));
  if (AnswerKnownSandbox(id, pod)) return;
  if (!member.id.empty() && TakeMember(member, pod, message)) return SendSandbox({id}, pod);
  StartSandbox(id, pod, message);
}

void Launcher::HandleMember(PacketServer::ConnectionId id, Message& message) {
  const SandboxName member = PoolMember(Decoder(message.payload).Text());
  if (!IsValidId(member.id))
    return serving_.server().Fail(id, InvalidArgument("member: id not valid"));
  if (retired_) return serving_.server().Fail(id, Unavailable("launcher: retired"));
  if (!AnswerKnownSandbox(id, member)) StartSandbox(id, member, message);
}

bool Launcher::AnswerKnownSandbox(PacketServer::ConnectionId id, const SandboxName& sandbox) {
  const std::string key = SandboxPrefix(sandbox);
  if (const auto it = pending_.find(key); it != pending_.end()) {
    it->second.waiters.push_back(id);
    return true;
  }
  if (sandboxes_.Has(sandbox)) {
    SendSandbox({id}, sandbox);
    return true;
  }
  sandboxes_.DropRest(sandbox);
  return false;
}

bool Launcher::TakeMember(const SandboxName& member, const SandboxName& pod,
                          const Message& message) {
  const auto plan = ReadPlan(message);
  const auto* wanted = plan ? std::get_if<model::SandboxPlan>(&*plan) : nullptr;
  return wanted != nullptr && sandboxes_.TakeMember(member, pod, wanted->hostname);
}

void Launcher::StartSandbox(PacketServer::ConnectionId id, const SandboxName& sandbox,
                            Message& message) {
  auto launch = CloneOrAnswer(id, message);
  if (!launch) return;
  Pending pending{std::move(*launch), {}, sandbox, {id}, {}};
  if (auto tracked = Track(SandboxPrefix(sandbox), std::move(pending)); !tracked)
    serving_.server().Fail(id, tracked.error());
}

std::optional<PendingLaunch> Launcher::CloneOrAnswer(PacketServer::ConnectionId id,
                                                     Message& message, char* begun) {
  auto launch = CloneFrom(message, begun);
  if (!launch) {
    const Error& error = launch.error();
    const LaunchFailure failure{"clone", error.sys_errno(), error.message(), false};
    serving_.server().Reply(id, MessageType::kLaunchFailed, Encode(failure));
    return std::nullopt;
  }
  has_children_ = true;
  // A sandbox's never has one, and a launch's gets it later.
  reaper_->ExpectWithoutRecord(launch->pid());
  return std::move(*launch);
}

Result<PendingLaunch> Launcher::CloneFrom(Message& message, char* begun) {
  ASSIGN_OR_RETURN(const model::Plan plan, ReadPlan(message));
  return runtime::Launch(context_, plan, std::span(message.fds).subspan(1), kLaunchLimit, begun);
}

// Now, or when it is decided; false when there is none.
bool Launcher::AnswerKnownLaunch(PacketServer::ConnectionId id, const std::string& process) {
  if (const auto it = pending_.find(process); it != pending_.end()) {
    it->second.waiters.push_back(id);
    return true;
  }
  auto found = records_.ReadStart(process);
  if (!found) {
    serving_.server().Fail(id, found.error());
    return true;
  }
  if (!*found) return false;
  const StartRecord& start = **found;
  const ProcessStage stage = StageOf(start.pid, start.start_ticks);
  if (stage == ProcessStage::kStarting) {
    // Its launcher died between "go" and exec: it will either exec or end within the recipe's time.
    serving_.server().Fail(id, Unavailable(StrCat("launch ", process, ": still starting")));
    return true;
  }
  if (stage == ProcessStage::kGone && records_.NeverBegan(process)) {
    auto removed = records_.RemoveStart(process);
    if (!removed) serving_.server().Fail(id, removed.error());
    return !removed;
  }
  const FdStore::Fds* tty = mirror_.Find(TerminalKey(process));
  auto pidfd = OpenExactProcess(start.pid, start.start_ticks);
  LaunchedPayload payload{start.pid,         start.start_ticks, start.started_at,
                          pidfd.has_value(), tty != nullptr,    {}};
  std::vector<int> fds;
  if (pidfd) fds.push_back(pidfd->get());
  if (tty != nullptr) fds.push_back(tty->front().get());
  serving_.server().Reply(id, MessageType::kLaunched, Encode(payload), fds);
  return true;
}

Result<void> Launcher::Track(const std::string& key, Pending pending) {
  const auto poll = [this, key](uint32_t) { PollPending(key); };
  const auto [it, added] = pending_.emplace(key, std::move(pending));
  PendingLaunch& launch = it->second.launch;
  auto watched = serving_.loop().Add(launch.report_fd(), EPOLLIN, poll);
  if (watched) watched = serving_.loop().Add(launch.pidfd(), EPOLLIN, poll);
  if (!watched) {
    serving_.loop().Remove(launch.report_fd());
    pending_.erase(it);
    return watched;
  }
  launch.OnBirth([this, key](int former_pidfd) { return RecordBirth(key, former_pidfd); });
  launch.OnTerminal([this, key](int master) { KeepTerminal(key, master); });
  (void)launch.Go();  // a child that is gone already is Poll()'s to explain
  HOLDFAST_PAUSE_POINT("launcher.after-go");
  return {};
}

// The child goes on after this, so from its first instruction its terminal outlives this process.
void Launcher::KeepTerminal(const std::string& process, int master) {
  const std::string key = TerminalKey(process);
  link_.Put(key, std::vector<int>{master});
  HOLDFAST_PAUSE_POINT("launcher.terminal-given");
  TellLogger(key, master);
  UniqueFd kept(::fcntl(master, F_DUPFD_CLOEXEC, kLowFdBound));
  FdStore::Fds masters;
  masters.push_back(std::move(kept));
  if (masters[0]) (void)mirror_.Put(key, std::move(masters));  // holder and logger have it too
}

void Launcher::PollAllPending() {
  std::vector<std::string> keys;
  for (const auto& [key, pending] : pending_) keys.push_back(key);
  for (const std::string& key : keys) PollPending(key);
}

void Launcher::PollPending(const std::string& key) {
  const auto it = pending_.find(key);
  if (it == pending_.end()) return;
  auto outcome = it->second.launch.Poll();
  if (!outcome) return;
  serving_.loop().Remove(it->second.launch.report_fd());
  serving_.loop().Remove(it->second.launch.pidfd());
  Pending pending = std::move(it->second);
  pending_.erase(it);
  Finish(std::move(pending), std::move(*outcome));
}

void Launcher::Finish(Pending pending, LaunchOutcome outcome) {
  HOLDFAST_PAUSE_POINT("launcher.before-answer");
  if (outcome.state != LaunchOutcome::State::kRunning) {
    AnswerFailure(pending, outcome);
  } else if (pending.sandbox) {
    PidFd init;
    if (outcome.sandbox.pid) init = pending.launch.DuplicatePidFd();
    sandboxes_.Keep(*pending.sandbox, std::move(outcome.sandbox), std::move(init));
    SendSandbox(pending.waiters, *pending.sandbox);
  } else {
    AnswerStarted(pending, outcome);
  }
  Reap();
}

void Launcher::AnswerFailure(Pending& pending, const LaunchOutcome& outcome) {
  // Before the answer: the caller may use the id again at once.
  if (!pending.start.id.empty()) (void)records_.RemoveStart(pending.start.id);
  if (outcome.pty_master) {
    const std::string key = TerminalKey(pending.start.id);
    mirror_.Drop(key);
    link_.Drop(key);
  }
  LaunchFailure failure;
  failure.step = outcome.step;
  failure.exec_failed = outcome.state == LaunchOutcome::State::kExecFailed;
  if (outcome.error) {
    failure.sys_errno = outcome.error->sys_errno();
    failure.text = outcome.error->message();
  }
  for (const auto id : pending.waiters) {
    serving_.server().Reply(id, MessageType::kLaunchFailed, Encode(failure));
  }
}

void Launcher::AnswerStarted(Pending& pending, LaunchOutcome& outcome) {
  const StartRecord& start = pending.start;
  const int pidfd = pending.launch.pidfd();
  link_.Put(MakeProcessKey(start.id), std::vector<int>{pidfd});
  LaunchedPayload payload{start.pid, start.start_ticks,          start.started_at,
                          true,      outcome.pty_master.valid(), std::move(outcome.warnings)};
  std::vector<int> fds{pidfd};
  if (outcome.pty_master) fds.push_back(outcome.pty_master.get());
  for (const auto id : pending.waiters) {
    serving_.server().Reply(id, MessageType::kLaunched, Encode(payload), fds);
  }
}

void Launcher::SendSandbox(const std::vector<PacketServer::ConnectionId>& to,
                           const SandboxName& sandbox) {
  const KeptSandboxes::Parts parts = sandboxes_.PartsOf(sandbox);
  for (const auto id : to) {
    serving_.server().Reply(id, MessageType::kOk, EncodeNames(parts.names), parts.fds);
  }
}

}  // namespace holdfast::runtime::keeper
