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
#include "runtime/keeper/fd_store.h"
#include "runtime/keeper/holder_link.h"
#include "runtime/keeper/loop.h"
#include "runtime/keeper/options.h"
#include "runtime/keeper/orphan_exits.h"
#include "runtime/keeper/reaper.h"
#include "runtime/keeper/records.h"
#include "runtime/keeper/server.h"
#include "runtime/keeper/upgrade.h"
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
    StartRecord start;  // empty id for a sandbox
    PodUid sandbox;     // empty for a process
    std::vector<PacketServer::ConnectionId> waiters;
  };

  explicit Launcher(const Options& options);
  Result<void> SetUp();
  Result<UniqueFd> TakeOver(Handover handover);
  Result<UniqueFd> Begin();
  void WatchHolder();

  void Handle(PacketServer::ConnectionId id, Message message);
  void HandleLaunch(PacketServer::ConnectionId id, Message& message);
  void HandleFindLaunch(PacketServer::ConnectionId id, Message& message);
  void HandleSandbox(PacketServer::ConnectionId id, Message& message);
  void HandleUpgrade(PacketServer::ConnectionId id, Message& message);
  // True when the id is taken, and answered.
  bool AnswerKnownLaunch(PacketServer::ConnectionId id, const std::string& process);
  Result<PendingLaunch> CloneFrom(Message& message);
  Result<void> Track(const std::string& key, Pending pending);
  Result<void> RecordStart(Pending& pending);
  Result<void> RecordBirth(const std::string& key, int former_pidfd);
  void KeepTerminal(const std::string& process, int master);
  void PollPending(const std::string& key);
  void PollAllPending();
  void Finish(Pending pending, LaunchOutcome outcome);
  void AnswerStarted(Pending& pending, LaunchOutcome& outcome);
  void AnswerSandbox(Pending& pending, LaunchOutcome& outcome);
  void SendSandbox(const std::vector<PacketServer::ConnectionId>& to, const PodUid& uid);
  void AnswerFailure(Pending& pending, const LaunchOutcome& outcome);
  void TellLogger(const std::string& key, int fd);
  void Reap();
  bool MayEnd();
  Result<Handover> MakeHandover() const;
  void UpgradeIfIdle();
  std::string SocketPath(const std::string& name) const;

  const Options options_;
  SystemClock clock_;
  Records records_;
  Loop loop_;
  std::unique_ptr<Reaper> reaper_;
  std::unique_ptr<OrphanExits> orphans_;
  std::unique_ptr<PacketServer> server_;
  FdStore mirror_;
  LaunchContext context_;
  UniqueFd signals_;
  UniqueFd timer_;
  PidFd holder_;  // invalid once the holder has ended
  HolderLink link_;
  std::map<std::string, Pending> pending_;
  UniqueFd next_binary_;  // an upgrade waits for the pending launches
  uint32_t upgrades_ = 0;
  bool retired_ = false;
  bool asked_to_end_ = false;  // SIGTERM came; ends once no container and no holder is left
  bool has_children_ = false;
};

}  // namespace holdfast::runtime::keeper
