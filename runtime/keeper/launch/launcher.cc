// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/launch/launcher.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/process.h"
#include "holdfast/sys/socket.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/paths.h"

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
          {.stored = [](const std::string&, FdStore::Fds& fds) { MoveUp(fds); }, .dropping = {}}),
      serving_(options_, mirror_, kLowFdBound) {}

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
  RETURN_IF_ERROR(serving_.Prepare({SIGCHLD, SIGTERM}));
  ASSIGN_OR_RETURN(std::optional<Handover> handover, serving_.Resume());
  ASSIGN_OR_RETURN(UniqueFd listener, handover ? TakeOver(*handover) : Begin());
  ASSIGN_OR_RETURN(context_, MakeLaunchContext());
  ASSIGN_OR_RETURN(own_uts_, sys::OpenAt(context_.proc.get(), "self/ns/uts", O_RDONLY));
  ASSIGN_OR_RETURN(own_uts_, MoveAboveLowFds(std::move(own_uts_)));
  reaper_ = std::make_unique<Reaper>(records_, clock_, Reaper::Ended());
  orphans_ = std::make_unique<OrphanExits>(records_, clock_, serving_.loop());
  orphans_->Watch(SafeParent::kSelf);
  return StartServing(std::move(listener));
}

Result<void> Launcher::StartServing(UniqueFd listener) {
  Serving::Work work;
  work.tick = [this] { return HasToLookAgain() ? kTick : std::chrono::milliseconds(0); };
  work.on_tick = [this] {
    orphans_->Hear();
    PollAllPending();
    Reap();
  };
  work.on_signal = [this](int signal) {
    if (signal == SIGTERM) asked_to_end_ = true;
    Reap();
  };
  work.handle = [this](PacketServer::ConnectionId id, Message m) { Handle(id, std::move(m)); };
  work.hand_over = [this](Handover& handover) { return HandOver(handover); };
  RETURN_IF_ERROR(serving_.Start(std::move(listener), std::move(work)));
  link_ = HolderLink(SocketPath(kHolderSocket), &MoveAboveLowFds);
  RETURN_IF_ERROR(link_.Follow(serving_.loop(), "launch"));
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

Result<UniqueFd> Launcher::TakeOver(Handover& handover) {
  ASSIGN_OR_RETURN(UniqueFd listener, serving_.TakeListener(handover));
  UniqueFd run_dir = handover.TakeFd("run-dir");
  if (!run_dir) return Internal("hand-over of the launcher is incomplete");
  ASSIGN_OR_RETURN(records_, Records::OpenAt(std::move(run_dir)));
  retired_ = handover.Value("retired") == "1";
  // A program before this one has let go of all when it was retired.
  let_go_ = retired_ && handover.Value("keeps") != "1";
  RETURN_IF_ERROR(serving_.TakeStore(handover));
  return listener;
}

Result<void> Launcher::HandOver(Handover& handover) const {
  handover.values["retired"] = StrCat(retired_ ? 1 : 0);
  handover.values["keeps"] = StrCat(let_go_ ? 0 : 1);
  return handover.Give("run-dir", records_.run_dir());
}

Result<void> Launcher::Run() {
  while (!MayEnd()) {
    RETURN_IF_ERROR(serving_.Turn());
    if (pending_.empty()) serving_.UpgradeIfAsked();
  }
  return {};
}

bool Launcher::HasToLookAgain() const {
  return !pending_.empty() || !orphans_->empty() || reaper_->HasUnrecorded();
}

bool Launcher::MayEnd() {
  if (!pending_.empty() || has_children_) return false;
  // Asked to end without a holder, as at a shutdown of the machine: what it keeps as second owner
  // has nobody left to come back for it.
  if (let_go_) return true;
  return !link_.HasHolder() && (asked_to_end_ || (!KeepsForPods() && orphans_->empty()));
}

// What lies ready for pods to come is nobody's loss.
bool Launcher::KeepsForPods() const {
  return mirror_.Keys(kMemberPrefix).size() < mirror_.entries().size();
}

void Launcher::Handle(PacketServer::ConnectionId id, Message message) {
  switch (message.type) {
    case MessageType::kLaunch:
      return HandleLaunch(id, message);
    case MessageType::kFindLaunch:
      return HandleFindLaunch(id, message);
    case MessageType::kMakeSandbox:
      return HandleSandbox(id, message);
    case MessageType::kMakeMember:
      return HandleMember(id, message);
    case MessageType::kRetire:
      retired_ = true;
      // Until there is another second owner; a holder before that message expects it at once.
      if (Decoder(message.payload).U8() == 0) LetGo();
      orphans_->Hear();  // the holder has opened those that are not gone yet
      serving_.server().Reply(id, MessageType::kOk);
      return;
    case MessageType::kLetGo:
      return LetGo();
    default:
      serving_.server().Fail(
          id, Unsupported(StrCat("launcher: unknown message ", static_cast<int>(message.type))));
  }
}

void Launcher::LetGo() {
  let_go_ = true;
  for (const std::string& key : mirror_.Keys()) mirror_.Drop(key);
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
