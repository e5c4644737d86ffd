// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/launcher.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/process.h"
#include "holdfast/sys/socket.h"
#include "runtime/keeper/paths.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::chrono::milliseconds kTick{500};

// Mirrored descriptors must not lie among the low numbers that a launch copies.
void MoveUp(FdStore::Fds& fds) {
  for (UniqueFd& fd : fds) {
    auto moved = MoveAboveLowFds(std::move(fd));
    if (moved) fd = std::move(*moved);
  }
}

}  // namespace

Launcher::Launcher(const Options& options)
    : options_(options),
      mirror_(
          {.stored = [](const std::string&, FdStore::Fds& fds) { MoveUp(fds); }, .dropping = {}}) {}

Result<std::unique_ptr<Launcher>> Launcher::Create(const Options& options) {
  std::unique_ptr<Launcher> launcher(new Launcher(options));
  RETURN_IF_ERROR(launcher->SetUp());
  return launcher;
}

Result<void> Launcher::SetUp() {
  ::prctl(PR_SET_NAME, "hf-launch");
  // Each child begins as a copy of this memory, and an exec's is within reach of a pod's tracers
  // before it is the program: what other pods' plans (their environment) have left is overwritten.
  ::mallopt(M_PERTURB, 0x5a);
  sys::PreferShortSlices();
  ASSIGN_OR_RETURN(loop_, Loop::Create());
  ASSIGN_OR_RETURN(signals_, SignalFd({SIGCHLD, SIGTERM}));
  UniqueFd listener;
  if (options_.resume >= 0) {
    ASSIGN_OR_RETURN(Handover handover, TakeHandover(options_.resume));
    ASSIGN_OR_RETURN(listener, TakeOver(std::move(handover)));
  } else {
    ASSIGN_OR_RETURN(listener, Begin());
  }
  ASSIGN_OR_RETURN(context_, MakeLaunchContext());
  reaper_ = std::make_unique<Reaper>(records_, clock_, Reaper::Ended());
  orphans_ = std::make_unique<OrphanExits>(records_, clock_, loop_);
  orphans_->Watch(SafeParent::kSelf);
  server_ = std::make_unique<PacketServer>(
      loop_, std::move(listener),
      [this](PacketServer::ConnectionId id, Message m) { Handle(id, std::move(m)); });
  RETURN_IF_ERROR(server_->Start());
  ASSIGN_OR_RETURN(timer_, TimerFd(kTick));
  RETURN_IF_ERROR(loop_.Add(timer_.get(), EPOLLIN, [this](uint32_t) {
    DrainTimer(timer_.get());
    orphans_->Hear();
    PollAllPending();
    Reap();
  }));
  RETURN_IF_ERROR(loop_.Add(signals_.get(), EPOLLIN, [this](uint32_t) {
    while (const int signal = ReadSignal(signals_.get())) {
      if (signal == SIGTERM) asked_to_end_ = true;
    }
    Reap();
  }));
  WatchHolder();
  Reap();
  return {};
}

// First start of this generation: the second owner's copies come from the holder, and whoever
// connects finds them complete, because the socket appears afterwards.
Result<UniqueFd> Launcher::Begin() {
  ASSIGN_OR_RETURN(records_, Records::Open(options_.run_dir));
  RETURN_IF_ERROR(WithContext(
      CopyKeys(StrCat(options_.run_dir, "/", kHolderSocket), &IsMirrored, mirror_), "copy keys"));
  HOLDFAST_PAUSE_POINT("launcher.before-listen");
  ASSIGN_OR_RETURN(
      UniqueFd listener,
      sys::ListenSeqpacket(StrCat(options_.run_dir, "/", LauncherSocketName(options_.generation)),
                           0600));
  RETURN_IF_ERROR(EnterLauncherMountNamespace(options_.visible));
  return listener;
}

Result<UniqueFd> Launcher::TakeOver(Handover handover) {
  UniqueFd listener = handover.TakeFd("listener");
  UniqueFd run_dir = handover.TakeFd("run-dir");
  if (!listener || !run_dir) return Internal("hand-over of the launcher is incomplete");
  ASSIGN_OR_RETURN(records_, Records::OpenAt(std::move(run_dir)));
  upgrades_ = static_cast<uint32_t>(std::strtoul(handover.Value("upgrades").c_str(), nullptr, 10));
  retired_ = handover.Value("retired") == "1";
  for (auto& [key, fds] : handover.fds) {
    if (key.starts_with("key:")) RETURN_IF_ERROR(mirror_.Put(key.substr(4), std::move(fds)));
  }
  return listener;
}

void Launcher::WatchHolder() {
  link_ = HolderLink(SocketPath(kHolderSocket), &MoveAboveLowFds);
  link_.Ready("launch");
  holder_ = link_.OpenHolder();
  if (!holder_) return;
  const auto ended = [this](uint32_t) {
    loop_.Remove(holder_.get());
    holder_.Reset();
    link_.Close();
  };
  if (!loop_.Add(holder_.get(), EPOLLIN, ended)) holder_.Reset();
}

Result<void> Launcher::Run() {
  while (!MayEnd()) {
    RETURN_IF_ERROR(loop_.RunOnce(std::chrono::milliseconds(-1)));
    UpgradeIfIdle();
  }
  return {};
}

bool Launcher::MayEnd() {
  if (!pending_.empty() || has_children_) return false;
  // Asked to end without a holder, as at a shutdown of the machine: what it keeps as second owner
  // has nobody left to come back for it.
  return retired_ || (!holder_ && (asked_to_end_ || mirror_.entries().empty()));
}

void Launcher::Handle(PacketServer::ConnectionId id, Message message) {
  switch (message.type) {
    case MessageType::kPing:
      server_->Reply(id, MessageType::kOk, Encoder().U32(upgrades_).Take());
      return;
    case MessageType::kLaunch:
      return HandleLaunch(id, message);
    case MessageType::kFindLaunch:
      return HandleFindLaunch(id, message);
    case MessageType::kMakeSandbox:
      return HandleSandbox(id, message);
    case MessageType::kUpgrade:
      return HandleUpgrade(id, message);
    case MessageType::kRetire:
      retired_ = true;
      for (const std::string& key : mirror_.Keys()) mirror_.Drop(key);
      server_->Reply(id, MessageType::kOk);
      return;
    default:
      if (mirror_.Serve(*server_, id, message)) return;
      server_->Fail(
          id, Unsupported(StrCat("launcher: unknown message ", static_cast<int>(message.type))));
  }
}

void Launcher::HandleUpgrade(PacketServer::ConnectionId id, Message& message) {
  auto copy = message.fds.empty() ? Result<UniqueFd>(InvalidArgument("upgrade: no binary"))
                                  : CopyBinary(message.fds[0].get());
  if (!copy) return server_->Fail(id, copy.error());
  // Tried now, while somebody can be told.
  if (auto handover = MakeHandover(); !handover) return server_->Fail(id, handover.error());
  next_binary_ = std::move(*copy);
  server_->Reply(id, MessageType::kOk, Encoder().U32(upgrades_).Take());
}

Result<Handover> Launcher::MakeHandover() const {
  Handover handover;
  handover.values["upgrades"] = StrCat(upgrades_ + 1);
  handover.values["retired"] = StrCat(retired_ ? 1 : 0);
  RETURN_IF_ERROR(handover.Give("listener", server_->listener(), kLowFdBound));
  RETURN_IF_ERROR(handover.Give("run-dir", records_.run_dir(), kLowFdBound));
  for (const auto& [key, fds] : mirror_.entries()) {
    RETURN_IF_ERROR(handover.Give(StrCat("key:", key), fds, kLowFdBound));
  }
  return handover;
}

void Launcher::UpgradeIfIdle() {
  if (!next_binary_ || !pending_.empty()) return;
  const auto handover = MakeHandover();
  // On failure all is as before.
  if (handover) (void)ReExecute(next_binary_.get(), options_.ToArguments(), *handover);
  next_binary_.Reset();
}

void Launcher::Reap() {
  PollAllPending();
  // A pending child that ended is looked at by Poll() before it is reaped.
  has_children_ = reaper_->ReapAll([this](pid_t pid) {
    for (const auto& [key, pending] : pending_) {
      if (pending.launch.pid() == pid) return true;
    }
    return false;
  });
}

// The logger may be away: its successor gets the key from the holder.
void Launcher::TellLogger(const std::string& key, int fd) {
  auto socket = sys::ConnectSeqpacket(SocketPath(kLoggerSocket));
  if (!socket) return;
  (void)SendMessage(socket->get(), MessageType::kPutQuiet, Encoder().Text(key).Take(),
                    std::vector<int>{fd});
}

// Works in every mount namespace that shows /proc, and is short whatever the run directory's name.
std::string Launcher::SocketPath(const std::string& name) const {
  return StrCat("/proc/self/fd/", records_.run_dir(), "/", name);
}

}  // namespace holdfast::runtime::keeper
