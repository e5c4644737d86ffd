// SPDX-License-Identifier: Apache-2.0
// Holder: subreaper; keeps descriptors, starts and restarts launcher and logger, waits for orphans.
// Once it serves it waits for no other process (only for half a second at most while an upgrade
// seals its new binary), and parses nothing but its own packets. Single-threaded, one Loop.
//
// A new holder (nothing but the run directory and, under systemd, the descriptor store is left):
// takes the store's descriptors, opens pidfds by the start records, collects from living launchers and
// logger, retires the old launchers, fetches log pipes nobody has any more out of the containers
// (pipe_recovery.h), then starts the next generation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "runtime/keeper/common/records.h"
#include "runtime/keeper/hold/spawn.h"
#include "runtime/keeper/hold/systemd.h"
#include "runtime/keeper/process/fd_store.h"
#include "runtime/keeper/process/options.h"
#include "runtime/keeper/process/orphan_exits.h"
#include "runtime/keeper/process/reaper.h"
#include "runtime/keeper/process/serving.h"

namespace holdfast::runtime::keeper {

class Holder {
 public:
  static Result<std::unique_ptr<Holder>> Create(const Options& options);
  // Serves until SIGTERM. Containers, launcher and logger live on.
  Result<void> Run();

 private:
  // Launcher or logger.
  struct Child {
    pid_t pid = 0;  // 0: not running
    PidFd adopted;  // of a logger that an earlier holder started
    bool ready = false;
    int64_t start_at_ms = 0;
    RestartDelay delay;
  };

  explicit Holder(const Options& options);
  Result<void> SetUp();
  Result<UniqueFd> TakeOver(Handover& handover);
  Result<UniqueFd> Begin();
  Result<void> StartServing(UniqueFd listener);

  // Collecting what earlier processes left (holder_collect.cc).
  Result<void> Collect();
  void CollectLauncher(const std::string& socket_name, unsigned generation);
  // Once their successor has what they keep.
  void LetRetiredGo() const;
  void CollectLogger();
  void OpenProcesses();
  void RemoveStaleTemporaries() const;

  void Handle(PacketServer::ConnectionId id, const Message& message);
  Result<void> HandOver(Handover& handover) const;
  void Stored(const std::string& key, FdStore::Fds& fds);
  void Dropping(const std::string& key);
  void SayAgain();
  // A process whose pidfd turned readable, and that no waiter of ours may have recorded.
  void CheckEnded();
  bool SettleEnded(const std::string& key);
  // Whether this process may still find out how that one ended, which is gone.
  bool AwaitsExit(const std::string& id);

  void StartChildren();
  void StartLauncher();
  void StartLogger();
  void ChildEnded(Child& child);
  void Reap();
  void OnSignal(int signal);
  // Short while something is waited for that no event may tell.
  std::chrono::milliseconds Tick() const;
  void OnTick();
  std::string SocketPath(const std::string& name) const { return options_.run_dir + "/" + name; }
  int64_t NowMs() const;

  const Options options_;
  SystemClock clock_;
  Notifier notifier_;
  Records records_;
  FdStore store_;
  Serving serving_;
  std::unique_ptr<Reaper> reaper_;
  std::unique_ptr<OrphanExits> orphans_;
  UniqueFd lock_;
  UniqueFd binary_;
  Child launcher_;
  Child logger_;
  std::set<std::string> ended_;   // pid.<id> keys to settle
  std::set<std::string> unsaid_;  // keys that systemd took no word about
  unsigned generation_ = 0;
  int64_t next_watchdog_ms_ = 0;
  bool told_ready_ = false;
  bool stopping_ = false;
};

}  // namespace holdfast::runtime::keeper
