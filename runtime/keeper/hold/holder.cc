// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/hold/holder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/process.h"
#include "holdfast/sys/socket.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/paths.h"
#include "runtime/keeper/common/process_info.h"
#include "runtime/keeper/hold/pipe_recovery.h"
#include "runtime/keeper/hold/run_dir.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::chrono::milliseconds kTick{50};

}  // namespace

Holder::Holder(const Options& options)
    : options_(options),
      notifier_(Notifier::FromEnvironment()),
      store_({.stored = [this](const std::string& key, FdStore::Fds& fds) { Stored(key, fds); },
              .dropping = [this](const std::string& key) { Dropping(key); },
              .missed = [this](const std::string& key) { RecoverLogPipe(key, records_, store_); }}),
      serving_(options_, store_) {}

Result<std::unique_ptr<Holder>> Holder::Create(const Options& options) {
  std::unique_ptr<Holder> holder(new Holder(options));
  RETURN_IF_ERROR(holder->SetUp());
  return holder;
}

Result<void> Holder::SetUp() {
  ::prctl(PR_SET_NAME, "hf-hold");
  sys::PreferShortSlices();
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return Error::FromErrno(errno, "prctl PR_SET_CHILD_SUBREAPER");
  }
  RETURN_IF_ERROR(serving_.Prepare({SIGCHLD, SIGTERM, SIGINT}));
  ASSIGN_OR_RETURN(binary_, CopyOwnBinary());
  ASSIGN_OR_RETURN(std::optional<Handover> handover, serving_.Resume());
  ASSIGN_OR_RETURN(UniqueFd listener, handover ? TakeOver(*handover) : Begin());
  return StartServing(std::move(listener));
}

Result<UniqueFd> Holder::Begin() {
  ASSIGN_OR_RETURN(const std::vector<std::string> warnings, EnsureRunDir(options_.run_dir));
  for (const std::string& warning : warnings) {
    (void)sys::WriteAll(STDERR_FILENO,
                        StrCat("holdfast-keeper: warning: ", Printable(warning), "\n"));
  }
  ASSIGN_OR_RETURN(records_, Records::Open(options_.run_dir));
  ASSIGN_OR_RETURN(lock_, sys::OpenAt(records_.run_dir(), kHolderLock, O_RDWR | O_CREAT, 0600));
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Conflict(StrCat("another holder serves ", options_.run_dir));
  }
  HOLDFAST_PAUSE_POINT("holder.locked");
  for (auto& [key, fd] : TakeListenFds()) {
    // Several descriptors of one key come one by one.
    FdStore::Fds fds;
    if (const FdStore::Fds* known = store_.Find(key); known != nullptr) {
      for (const UniqueFd& k : *known) fds.emplace_back(::fcntl(k.get(), F_DUPFD_CLOEXEC, 3));
    }
    fds.push_back(std::move(fd));
    (void)store_.Put(key, std::move(fds));  // a key that is not ours is left to systemd
  }
  RETURN_IF_ERROR(Collect());
  HOLDFAST_PAUSE_POINT("holder.collected");
  return sys::ListenSeqpacket(SocketPath(kHolderSocket), 0600);
}

Result<UniqueFd> Holder::TakeOver(Handover& handover) {
  ASSIGN_OR_RETURN(UniqueFd listener, serving_.TakeListener(handover));
  UniqueFd run_dir = handover.TakeFd("run-dir");
  lock_ = handover.TakeFd("lock");
  if (!run_dir || !lock_) return Internal("hand-over of the holder is incomplete");
  ASSIGN_OR_RETURN(records_, Records::OpenAt(std::move(run_dir)));
  logger_.adopted = PidFd(handover.TakeFd("logger-pidfd").Release());
  generation_ = static_cast<unsigned>(handover.Number("generation"));
  launcher_.pid = static_cast<pid_t>(handover.Number("launcher"));
  logger_.pid = static_cast<pid_t>(handover.Number("logger"));
  launcher_.ready = handover.Number("launcher-ready") != 0;
  logger_.ready = handover.Number("logger-ready") != 0;
  told_ready_ = handover.Number("told-ready") != 0;
  RETURN_IF_ERROR(serving_.TakeStore(handover));
  return listener;
}

Result<void> Holder::StartServing(UniqueFd listener) {
  reaper_ = std::make_unique<Reaper>(records_, clock_, [this](pid_t pid, const std::string&) {
    if (pid == launcher_.pid) ChildEnded(launcher_);
    if (pid == logger_.pid) ChildEnded(logger_);
  });
  RETURN_IF_ERROR(serving_.Start(
      std::move(listener),
      {.tick = [this] { return Tick(); },
       .on_tick = [this] { OnTick(); },
       .on_signal = [this](int signal) { OnSignal(signal); },
       .handle = [this](PacketServer::ConnectionId id, const Message& m) { Handle(id, m); },
       .hand_over = [this](Handover& handover) { return HandOver(handover); }}));
  if (logger_.adopted) {
    RETURN_IF_ERROR(serving_.loop().Add(logger_.adopted.get(), EPOLLIN,
                                        [this](uint32_t) { ChildEnded(logger_); }));
  }
  orphans_ = std::make_unique<OrphanExits>(records_, clock_, serving_.loop());
  orphans_->Watch(SafeParent::kSelfOrChild);
  Reap();
  StartChildren();
  return {};
}

Result<void> Holder::Run() {
  while (!stopping_) {
    RETURN_IF_ERROR(serving_.Turn());
    serving_.UpgradeIfAsked();
  }
  return {};
}

void Holder::Handle(PacketServer::ConnectionId id, const Message& message) {
  switch (message.type) {
    case MessageType::kReady: {
      const std::string who = Decoder(message.payload).Text();
      (who == "launch" ? launcher_ : logger_).ready = true;
      if (who == "launch") LetRetiredGo();
      if (!told_ready_ && launcher_.ready && logger_.ready) {
        told_ready_ = true;
        notifier_.Ready(StrCat("keeping ", store_.entries().size(), " descriptors"));
      }
      return;
    }
    case MessageType::kAwaitsExit: {
      const bool awaits = AwaitsExit(Decoder(message.payload).Text());
      serving_.server().Reply(id, MessageType::kOk, Encoder().U8(awaits ? 1 : 0).Take());
      return;
    }
    default:
      serving_.server().Fail(
          id, Unsupported(StrCat("holder: unknown message ", static_cast<int>(message.type))));
  }
}

Result<void> Holder::HandOver(Handover& handover) const {
  handover.values.insert({{"generation", StrCat(generation_)},
                          {"launcher", StrCat(launcher_.pid)},
                          {"logger", StrCat(logger_.pid)},
                          {"launcher-ready", launcher_.ready ? "1" : "0"},
                          {"logger-ready", logger_.ready ? "1" : "0"},
                          {"told-ready", told_ready_ ? "1" : "0"}});
  RETURN_IF_ERROR(handover.Give("run-dir", records_.run_dir()));
  RETURN_IF_ERROR(handover.Give("lock", lock_.get()));
  RETURN_IF_ERROR(handover.Give("logger-pidfd", logger_.adopted.get()));
  notifier_.ToEnvironment();
  return {};
}

void Holder::Stored(const std::string& key, FdStore::Fds& fds) {
  if (!unsaid_.empty() || !notifier_.StoreFds(key, Borrow(fds))) unsaid_.insert(key);
  if (!ProcessOfKey(key)) return;
  const int pidfd = fds.front().get();
  const auto ended = [this, key, pidfd](uint32_t) {
    serving_.loop().Remove(pidfd);
    ended_.insert(key);
    CheckEnded();
  };
  if (!serving_.loop().Add(pidfd, EPOLLIN, ended)) ended_.insert(key);
}

void Holder::Dropping(const std::string& key) {
  if (!unsaid_.empty() || !notifier_.RemoveFds(key)) unsaid_.insert(key);
  if (!ProcessOfKey(key)) return;
  serving_.loop().Remove(store_.Find(key)->front().get());
}

// Of keys that systemd has heard nothing or an old thing of: as they are now. First what it is to
// forget: it leaves a descriptor out that it still has under another name.
void Holder::SayAgain() {
  for (const std::string& key : unsaid_) {
    if (!notifier_.RemoveFds(key)) return;
  }
  while (!unsaid_.empty()) {
    const std::string key = *unsaid_.begin();
    const FdStore::Fds* fds = store_.Find(key);
    if (fds != nullptr && !notifier_.StoreFds(key, Borrow(*fds))) return;
    unsaid_.erase(key);
  }
}

void Holder::CheckEnded() {
  const std::set<std::string> keys = ended_;
  for (const std::string& key : keys) {
    if (!SettleEnded(key)) continue;
    ended_.erase(key);
    store_.Drop(key);
  }
}

// What is known is written down before the answer.
bool Holder::AwaitsExit(const std::string& id) {
  if (orphans_->Awaits(id)) return true;
  const std::string key = MakeProcessKey(id);
  if (store_.Find(key) == nullptr) return false;
  ended_.insert(key);
  CheckEnded();
  return store_.Find(key) != nullptr;
}

// True when there is nothing more to find out about it.
bool Holder::SettleEnded(const std::string& key) {
  const FdStore::Fds* fds = store_.Find(key);
  if (fds == nullptr) return true;
  const std::string id = ProcessOfKey(key).value_or("");
  auto start = records_.ReadStart(id);
  if (!start || !*start) return true;
  auto exit = records_.ExitOf(**start);
  if (exit && *exit) return true;
  // A waiter of ours (its launcher, or this process) records before it reaps.
  if (ProcessExists((*start)->pid, (*start)->start_ticks)) return false;
  if (records_.NeverBegan(id)) return records_.RemoveStart(id).has_value();
  if (orphans_ && orphans_->Awaits(id)) return false;
  exit = records_.ExitOf(**start);
  if (exit && *exit) return true;
  auto report = ExitFromPidfd(fds->front().get(), clock_.Wall());
  if (!report) {
    report = model::ExitReport{model::ExitReport::Source::kLost, 137, 0, false, clock_.Wall()};
  }
  return records_.WriteExit({id, (*start)->pid, (*start)->start_ticks, *report}) &&
         records_.RemoveExitIfForgotten(id);
}

void Holder::OnSignal(int signal) {
  if (signal != SIGCHLD) stopping_ = true;
  Reap();
}

void Holder::Reap() {
  reaper_->ReapAll();
  CheckEnded();
}

// Half of the watchdog's period: a timer that begins in the middle of it is in time, too.
std::chrono::milliseconds Holder::Tick() const {
  const bool misses_child = launcher_.pid == 0 || (logger_.pid == 0 && !logger_.adopted);
  if (misses_child || !ended_.empty() || !unsaid_.empty() || !orphans_->empty() ||
      reaper_->HasUnrecorded()) {
    return kTick;
  }
  return notifier_.watchdog_period().value_or(std::chrono::milliseconds(0)) / 2;
}

void Holder::OnTick() {
  orphans_->Hear();
  SayAgain();
  Reap();
  StartChildren();
  const auto period = notifier_.watchdog_period();
  if (period && NowMs() >= next_watchdog_ms_) {
    next_watchdog_ms_ = NowMs() + period->count();
    notifier_.Watchdog();
  }
}

int64_t Holder::NowMs() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.Boot().since_boot).count();
}

}  // namespace holdfast::runtime::keeper
