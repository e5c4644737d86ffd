// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/client/client.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/keeper/client/client_call.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/messages.h"
#include "runtime/keeper/common/paths.h"
#include "runtime/keeper/common/process_info.h"
#include "runtime/keeper/common/records.h"

namespace holdfast::runtime::keeper {
namespace {

// The recipe's own limit (30 s) and a restart of the launcher.
constexpr std::chrono::seconds kLaunchLimit{40};
constexpr std::chrono::seconds kReapLimit{5};
constexpr std::chrono::microseconds kFirstReapPoll{50};
constexpr std::chrono::microseconds kLongestReapPoll{2000};
constexpr std::chrono::seconds kHolderLimit{1};

std::string TextPayload(const std::string& text) { return Encoder().Text(text).Take(); }

LaunchFailure KeeperFailure(const Error& error) {
  return {"keeper", error.sys_errno(), error.message()};
}

// The answer of a launcher that never had this launch.
LaunchFailure CutShort(const Error& error) {
  LaunchFailure failure = KeeperFailure(error);
  failure.cut_short = true;
  return failure;
}

// What is known of the start before it.
StartRecord StartOf(const LaunchRequest& request) {
  StartRecord start;
  start.id = request.id;
  start.kind = request.kind;
  start.attempt = request.attempt;
  start.stdout_inode = request.stdout_inode;
  start.stderr_inode = request.stderr_inode;
  start.tag = request.tag;
  return start;
}

std::vector<int> PlanAndFds(int plan, const std::vector<int>& fds) {
  std::vector<int> all{plan};
  all.insert(all.end(), fds.begin(), fds.end());
  return all;
}

Result<std::vector<KeptFd>> PairUp(const std::vector<std::string>& names,
                                   std::vector<UniqueFd> fds) {
  if (names.size() != fds.size()) return Internal("sandbox: names and descriptors do not match");
  std::vector<KeptFd> out;
  for (size_t i = 0; i < names.size(); ++i) out.push_back({names[i], std::move(fds[i])});
  return out;
}

// Recorded comes before reaped; a waiter that dies in between is followed by another one.
Result<void> WaitReaped(const std::optional<StartRecord>& start) {
  const SystemClock clock;
  const BootTime deadline = clock.Boot() + kReapLimit;
  std::chrono::microseconds pause = kFirstReapPoll;
  while (start && ProcessExists(start->pid, start->start_ticks)) {
    if (clock.Boot() >= deadline) {
      return Conflict(StrCat("forget ", start->id, ": process ", start->pid, " still exists"));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestReapPoll);
  }
  return {};
}

// True, too, when no holder answers: a new one has systemd's store, and the launcher's word.
bool HolderMayTellExit(Peers& peers, const std::string& id) {
  auto answer =
      CallKeeper(peers, Peer::kHolder, MessageType::kAwaitsExit, TextPayload(id), {}, kHolderLimit);
  if (!answer) return answer.error().code() != Code::kUnsupported;  // an older holder
  return Decoder(answer->payload).U8() != 0;
}

// The sandbox as `peer` keeps it; empty unless it is complete there.
Result<std::vector<KeptFd>> GetSandboxOf(Peers& peers, Peer peer, const SandboxName& sandbox) {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                   ListKeysOf(peers, peer, SandboxPrefix(sandbox)));
  std::vector<KeptFd> out;
  for (const std::string& key : keys) {
    const auto parsed = ParseSandboxKey(key);
    if (!parsed || parsed->sandbox != sandbox || parsed->total != keys.size()) continue;
    auto got = CallKeeper(peers, peer, MessageType::kGet, TextPayload(key), {});
    if (!got && got.error().code() == Code::kNotFound) return std::vector<KeptFd>();
    if (!got) return std::move(got.error());
    if (got->fds.empty()) return Internal(StrCat("get ", key, ": answer without descriptors"));
    out.push_back({parsed->name, std::move(got->fds.front())});
  }
  return out;
}

// With both owners.
Result<void> PutKey(Peers& peers, const std::string& key, const std::vector<int>& fds) {
  for (const Peer peer : {Peer::kHolder, Peer::kLauncher}) {
    RETURN_IF_ERROR(CallKeeper(peers, peer, MessageType::kPut, TextPayload(key), fds));
  }
  return {};
}

Result<void> DropKeysOf(Peers& peers, const SandboxName& sandbox) {
  const std::string payload = TextPayload(SandboxPrefix(sandbox));
  // A holder that restarts in between collects from the launcher, hence the second round.
  for (const Peer peer : {Peer::kHolder, Peer::kLauncher, Peer::kHolder}) {
    RETURN_IF_ERROR(CallKeeper(peers, peer, MessageType::kDropPrefix, payload, {}));
  }
  return {};
}

// The ids of those that `prefix` is the beginning of.
Result<std::set<std::string>> ListSandboxesOf(Peers& peers, const char* prefix) {
  std::set<std::string> ids;
  for (const Peer peer : {Peer::kHolder, Peer::kLauncher}) {
    ASSIGN_OR_RETURN(const std::vector<std::string> keys, ListKeysOf(peers, peer, prefix));
    for (const std::string& key : keys) {
      if (auto parsed = ParseSandboxKey(key); parsed) ids.insert(std::move(parsed->sandbox.id));
    }
  }
  return ids;
}

}  // namespace

Result<void> KeeperClient::Ping(std::chrono::milliseconds limit) const {
  for (const Peer peer : {Peer::kHolder, Peer::kLauncher, Peer::kLogger}) {
    RETURN_IF_ERROR(CallKeeper(*peers_, peer, MessageType::kPing, {}, {}, limit));
  }
  return {};
}

std::expected<Launched, LaunchFailure> KeeperClient::Launch(const LaunchRequest& request) const {
  const Request launch{MessageType::kLaunch, EncodeLaunch(StartOf(request)),
                       PlanAndFds(request.plan, request.fds)};
  const Request find{MessageType::kFindLaunch, TextPayload(request.id), {}};
  auto answer =
      CallKeeperOnce(*peers_, Peer::kLauncher, launch, request.once ? find : launch, kLaunchLimit);
  if (!answer && answer.error().code() == Code::kNotFound) {
    return std::unexpected(CutShort(answer.error()));
  }
  if (!answer) return std::unexpected(KeeperFailure(answer.error()));
  if (answer->type == MessageType::kLaunchFailed) {
    auto failure = DecodeLaunchFailure(answer->payload);
    return std::unexpected(failure ? std::move(*failure) : KeeperFailure(failure.error()));
  }
  auto payload = DecodeLaunched(answer->payload);
  if (!payload) return std::unexpected(KeeperFailure(payload.error()));
  const size_t expected = (payload->has_pidfd ? 1u : 0u) + (payload->has_pty ? 1u : 0u);
  if (answer->fds.size() != expected) {
    return std::unexpected(KeeperFailure(Internal("launch: answer without its descriptors")));
  }
  Launched launched;
  launched.pid = payload->pid;
  launched.start_ticks = payload->start_ticks;
  launched.started_at = payload->started_at;
  launched.warnings = std::move(payload->warnings);
  if (payload->has_pidfd) launched.pidfd = PidFd(answer->fds.front().Release());
  if (payload->has_pty) launched.pty_master = std::move(answer->fds.back());
  return launched;
}

Result<std::vector<StartRecord>> KeeperClient::ListStarts() const {
  ASSIGN_OR_RETURN(const Records records, Records::Open(peers_->run_dir()));
  return records.ListStarts();
}

Result<std::optional<StartRecord>> KeeperClient::FindStart(const std::string& id) const {
  ASSIGN_OR_RETURN(const Records records, Records::Open(peers_->run_dir()));
  return records.ReadStart(id);
}

Result<bool> KeeperClient::HasBegun(const StartRecord& start) const {
  ASSIGN_OR_RETURN(const Records records, Records::Open(peers_->run_dir()));
  const ProcessStage stage = StageOf(start.pid, start.start_ticks);
  if (stage == ProcessStage::kGone) return !records.NeverBegan(start.id);
  return stage == ProcessStage::kStarted;
}

Result<PidFd> KeeperClient::OpenProcess(const StartRecord& start) const {
  return OpenExactProcess(start.pid, start.start_ticks);
}

Result<std::vector<ExitRecord>> KeeperClient::ListExits() const {
  ASSIGN_OR_RETURN(const Records records, Records::Open(peers_->run_dir()));
  return records.ListExits();
}

Result<void> KeeperClient::RemoveForgottenExits() const {
  ASSIGN_OR_RETURN(const Records records, Records::Open(peers_->run_dir()));
  ASSIGN_OR_RETURN(const std::vector<ExitRecord> exits, records.ListExits());
  for (const ExitRecord& exit : exits) RETURN_IF_ERROR(records.RemoveExitIfForgotten(exit.id));
  return {};
}

Result<std::optional<model::ExitReport>> KeeperClient::FindExit(const StartRecord& start,
                                                                int pidfd) const {
  ASSIGN_OR_RETURN(const Records records, Records::Open(peers_->run_dir()));
  const bool exists = ProcessExists(start.pid, start.start_ticks);
  ASSIGN_OR_RETURN(auto recorded, records.ExitOf(start));
  if (recorded || exists) return recorded;
  if (records.NeverBegan(start.id)) return std::optional<model::ExitReport>();
  const WallTime now = SystemClock().Wall();
  std::optional<model::ExitReport> report;
  if (pidfd >= 0) report = ExitFromPidfd(pidfd, now);
  if (!report) {
    // Whoever reaps writes the record first; nobody of ours did, but the holder may have its pidfd, or
    // have heard it.
    if (HolderMayTellExit(*peers_, start.id)) return std::optional<model::ExitReport>();
    ASSIGN_OR_RETURN(recorded, records.ExitOf(start));
    if (recorded) return recorded;
    report = model::ExitReport{model::ExitReport::Source::kLost, 137, 0, false, now};
  }
  RETURN_IF_ERROR(records.WriteExit({start.id, start.pid, start.start_ticks, *report}));
  RETURN_IF_ERROR(records.RemoveExitIfForgotten(start.id));
  return report;
}

Result<void> KeeperClient::SetOomKilled(const std::string& id) const {
  ASSIGN_OR_RETURN(const Records records, Records::Open(peers_->run_dir()));
  ASSIGN_OR_RETURN(auto exit, records.ReadExit(id));
  if (!exit) return NotFound(StrCat("exit record ", id));
  exit->report.oom_killed = true;
  RETURN_IF_ERROR(records.ReplaceExit(*exit));
  return records.RemoveExitIfForgotten(id);
}

Result<void> KeeperClient::Forget(const std::string& id) const {
  if (!IsValidId(id)) return InvalidArgument(StrCat("forget: id \"", id, "\" is not valid"));
  ASSIGN_OR_RETURN(const Records records, Records::Open(peers_->run_dir()));
  ASSIGN_OR_RETURN(const auto start, records.ReadStart(id));
  RETURN_IF_ERROR(WaitReaped(start));
  // The start record first: an exit record alone is never taken for a running process.
  RETURN_IF_ERROR(records.RemoveStart(id));
  RETURN_IF_ERROR(records.RemoveExit(id));
  RETURN_IF_ERROR(
      CallKeeper(*peers_, Peer::kHolder, MessageType::kDrop, TextPayload(MakeProcessKey(id)), {}));
  return {};
}

Result<UniqueFd> KeeperClient::WatchExits() const {
  ASSIGN_OR_RETURN(const Records records, Records::Open(peers_->run_dir()));
  UniqueFd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd) return Error::FromErrno(errno, "inotify_init1");
  const std::string dir = StrCat(peers_->run_dir(), "/", kExitsDir);
  if (::inotify_add_watch(fd.get(), dir.c_str(), IN_MOVED_TO) < 0) {
    return Error::FromErrno(errno, StrCat("inotify_add_watch ", dir));
  }
  return fd;
}

std::vector<std::string> KeeperClient::ReadExitHints(int watch) {
  std::set<std::string> ids;
  alignas(inotify_event) std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t n = ::read(watch, buffer.data(), buffer.size());
    if (n <= 0) break;
    for (size_t at = 0; at < static_cast<size_t>(n);) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      if (event->len > 0 && IsValidId(event->name)) ids.insert(event->name);
      at += sizeof(inotify_event) + event->len;
    }
  }
  return {ids.begin(), ids.end()};
}

PendingSandbox KeeperClient::BeginSandbox(const PodUid& uid, int plan, const std::vector<int>& fds,
                                          const std::string& member) const {
  Encoder payload;
  payload.Text(uid.value);
  if (!member.empty()) payload.Text(member);
  return PendingSandbox(KeeperCall(
      peers_, Peer::kLauncher, {{MessageType::kMakeSandbox, payload.Take(), PlanAndFds(plan, fds)}},
      kLaunchLimit));
}

std::expected<std::vector<KeptFd>, LaunchFailure> KeeperClient::MakeMember(
    const std::string& member, int plan) const {
  return PendingSandbox(KeeperCall(peers_, Peer::kLauncher,
                                   {{MessageType::kMakeMember, TextPayload(member), {plan}}},
                                   kLaunchLimit))
      .Await();
}

std::expected<std::vector<KeptFd>, LaunchFailure> PendingSandbox::Await() {
  auto answer = call_.Await();
  if (!answer) return std::unexpected(KeeperFailure(answer.error()));
  if (answer->type == MessageType::kLaunchFailed) {
    auto failure = DecodeLaunchFailure(answer->payload);
    return std::unexpected(failure ? std::move(*failure) : KeeperFailure(failure.error()));
  }
  auto names = DecodeNames(answer->payload);
  if (!names) return std::unexpected(KeeperFailure(names.error()));
  auto pairs = PairUp(*names, std::move(answer->fds));
  if (!pairs) return std::unexpected(KeeperFailure(pairs.error()));
  return std::move(*pairs);
}

std::expected<std::vector<KeptFd>, LaunchFailure> KeeperClient::MakeSandbox(
    const PodUid& uid, int plan, const std::vector<int>& fds) const {
  return BeginSandbox(uid, plan, fds).Await();
}

Result<std::vector<KeptFd>> KeeperClient::GetSandbox(const PodUid& uid) const {
  // The holder may be just about to receive what the launcher has made.
  for (const Peer peer : {Peer::kHolder, Peer::kLauncher}) {
    ASSIGN_OR_RETURN(std::vector<KeptFd> kept, GetSandboxOf(*peers_, peer, PodSandbox(uid)));
    if (!kept.empty()) return kept;
  }
  return NotFound(StrCat("sandbox ", uid.value, ": the keeper does not have it"));
}

Result<void> KeeperClient::PutSandbox(const PodUid& uid,
                                      const std::vector<std::pair<std::string, int>>& fds) const {
  // What is left of others would make the set one that is never complete.
  RETURN_IF_ERROR(DropSandbox(uid));
  for (const auto& [name, fd] : fds) {
    const std::string key = MakeSandboxKey({PodSandbox(uid), fds.size(), name});
    RETURN_IF_ERROR(PutKey(*peers_, key, {fd}));
  }
  return {};
}

Result<void> KeeperClient::DropSandbox(const PodUid& uid) const {
  return DropKeysOf(*peers_, PodSandbox(uid));
}

Result<std::vector<PodUid>> KeeperClient::ListSandboxes() const {
  ASSIGN_OR_RETURN(const std::set<std::string> ids, ListSandboxesOf(*peers_, kSandboxPrefix));
  return std::vector<PodUid>(ids.begin(), ids.end());
}

Result<void> KeeperClient::DropMember(const std::string& member) const {
  return DropKeysOf(*peers_, PoolMember(member));
}

Result<std::vector<std::string>> KeeperClient::ListMembers() const {
  ASSIGN_OR_RETURN(const std::set<std::string> ids, ListSandboxesOf(*peers_, kMemberPrefix));
  return std::vector<std::string>(ids.begin(), ids.end());
}

Result<void> KeeperClient::PutFds(const std::string& key, const std::vector<int>& fds) const {
  if (IsKeepersOwn(key)) return InvalidArgument(StrCat("put ", key, ": a key of the keeper"));
  return PutKey(*peers_, key, fds);
}

Result<std::vector<UniqueFd>> KeeperClient::GetFds(const std::string& key) const {
  ASSIGN_OR_RETURN(Message got,
                   CallKeeper(*peers_, Peer::kHolder, MessageType::kGet, TextPayload(key), {}));
  return std::move(got.fds);
}

Result<void> KeeperClient::DropFds(const std::string& key) const {
  for (const Peer peer : {Peer::kHolder, Peer::kLauncher, Peer::kHolder}) {
    RETURN_IF_ERROR(CallKeeper(*peers_, peer, MessageType::kDrop, TextPayload(key), {}));
  }
  return {};
}

Result<std::vector<std::string>> KeeperClient::ListKeys() const {
  return ListKeysOf(*peers_, Peer::kHolder, "");
}

Result<void> KeeperClient::Upgrade(int binary) const {
  for (const Peer peer : {Peer::kHolder, Peer::kLauncher, Peer::kLogger}) {
    RETURN_IF_ERROR(UpgradeProcess(*peers_, peer, binary));
  }
  return {};
}

}  // namespace holdfast::runtime::keeper
