// SPDX-License-Identifier: Apache-2.0
// Launcher: zygote and parent of the containers. One generation lives until its containers are
// gone; only the newest one starts new ones. Single-threaded, one Loop; runs in its own small mount
// namespace, so every path goes through a descriptor of the run directory.
//
// It ends when the holder is gone or has retired it, and it has neither children nor descriptors
// that it is the last owner of.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/records.h"
#include "runtime/keeper/launch/begun_mark.h"
#include "runtime/keeper/launch/kept_sandboxes.h"
#include "runtime/keeper/process/fd_store.h"
#include "runtime/keeper/process/holder_link.h"
#include "runtime/keeper/process/options.h"
#include "runtime/keeper/process/orphan_exits.h"
#include "runtime/keeper/process/reaper.h"
#include "runtime/keeper/process/serving.h"
#include "runtime/launch/launch.h"

namespace holdfast::runtime::keeper {

class Launcher {
 public:
  static Result<std::unique_ptr<Launcher>> Create(const Options& options);
  // Serves until there is nothing left to do.
  Result<void> Run();

 private:
  struct Pending {
    PendingLaunch launch;
    StartRecord start;                   // empty id for a sandbox
    std::optional<SandboxName> sandbox;  // none for a process
    std::vector<PacketServer::ConnectionId> waiters;
    BegunMark begun;  // of a process
  };

  explicit Launcher(const Options& options);
  Result<void> SetUp();
  Result<UniqueFd> TakeOver(Handover& handover);
  Result<UniqueFd> Begin();
  Result<void> StartServing(UniqueFd listener);
  Result<void> HandOver(Handover& handover) const;

  void Handle(PacketServer::ConnectionId id, Message message);
  void HandleLaunch(PacketServer::ConnectionId id, Message& message);
  void HandleFindLaunch(PacketServer::ConnectionId id, Message& message);
  void HandleSandbox(PacketServer::ConnectionId id, Message& message);
  void HandleMember(PacketServer::ConnectionId id, Message& message);
  // True when the id is taken, and answered.
  bool AnswerKnownLaunch(PacketServer::ConnectionId id, const std::string& process);
  // True when it is there, or on its way: answered now or then.
  bool AnswerKnownSandbox(PacketServer::ConnectionId id, const SandboxName& sandbox);
  void StartSandbox(PacketServer::ConnectionId id, const SandboxName& sandbox, Message& message);
  // False where a new one is to be tried, whose failure is told.
  bool TakeMember(const SandboxName& member, const SandboxName& pod, const Message& message);
  Result<PendingLaunch> CloneFrom(Message& message, char* begun);
  // nullopt: the failure is answered.
  std::optional<PendingLaunch> CloneOrAnswer(PacketServer::ConnectionId id, Message& message,
                                             char* begun = nullptr);
  Result<void> Track(const std::string& key, Pending pending);
  Result<void> RecordStart(Pending& pending);
  Result<void> RecordBirth(const std::string& key, int former_pidfd);
  void KeepTerminal(const std::string& process, int master);
  void PollPending(const std::string& key);
  void PollAllPending();
  void Finish(Pending pending, LaunchOutcome outcome);
  void AnswerStarted(Pending& pending, LaunchOutcome& outcome);
  void SendSandbox(const std::vector<PacketServer::ConnectionId>& to, const SandboxName& sandbox);
  void AnswerFailure(Pending& pending, const LaunchOutcome& outcome);
  void TellLogger(const std::string& key, int fd);
  void Reap();
  void LetGo();  // of what is kept as second owner
  // What no event may tell.
  bool HasToLookAgain() const;
  bool MayEnd();
  bool KeepsForPods() const;
  std::string SocketPath(const std::string& name) const;

  const Options options_;
  SystemClock clock_;
  Records records_;
  FdStore mirror_;
  Serving serving_;
  std::unique_ptr<Reaper> reaper_;
  std::unique_ptr<OrphanExits> orphans_;
  LaunchContext context_;
  UniqueFd own_uts_;  // namespace
  HolderLink link_;
  KeptSandboxes sandboxes_{mirror_, link_, own_uts_};
  std::map<std::string, Pending> pending_;
  bool retired_ = false;
  bool let_go_ = false;        // retired, and nothing is kept for a successor any more
  bool asked_to_end_ = false;  // SIGTERM came; ends once no container and no holder is left
  bool has_children_ = false;
};

}  // namespace holdfast::runtime::keeper
