// SPDX-License-Identifier: Apache-2.0
// Serving: what holder, launcher and logger have in common around their own work: the loop with
// signals, timer and socket, the store's messages, ping, and the upgrade in place.
// Single-threaded.
//
// Order: Prepare(), then either Resume() or what a first start needs, then Start(), then turns.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/keeper/process/fd_store.h"
#include "runtime/keeper/process/loop.h"
#include "runtime/keeper/process/options.h"
#include "runtime/keeper/process/server.h"
#include "runtime/keeper/process/upgrade.h"

namespace holdfast::runtime::keeper {

class Serving {
 public:
  struct Work {
    // How often on_tick is to run as things stand, zero for never: a process that waits for nothing
    // but events sleeps. Asked before every turn.
    std::function<std::chrono::milliseconds()> tick;
    std::function<void()> on_tick;
    std::function<void(int signal)> on_signal;
    PacketServer::Handler handle;  // what is neither a ping, an upgrade nor the store's
    // What the next program needs beside listener and store. Fails when descriptors run out.
    std::function<Result<void>(Handover& handover)> hand_over;
  };

  // Both borrowed. Duplicates for a hand-over get numbers from `lowest_fd` on.
  Serving(const Options& options, FdStore& store, int lowest_fd = 3)
      : options_(options), store_(store), lowest_fd_(lowest_fd) {}

  // The signals are blocked from here on and wait for Start().
  Result<void> Prepare(std::initializer_list<int> signals);
  // The hand-over of the program before; nullopt at a first start.
  Result<std::optional<Handover>> Resume() const;
  // Takes the listener and the count of upgrades out of it.
  Result<UniqueFd> TakeListener(Handover& handover);
  // Puts the kept descriptors back; once the owner can take them.
  Result<void> TakeStore(Handover& handover);
  Result<void> Start(UniqueFd listener, Work work);

  // Waits for one event at least, and handles it.
  Result<void> Turn();
  // Replaces the program if that was asked for. Returns if it was not, or could not be done: then
  // everything is as before.
  void UpgradeIfAsked();

  Loop& loop() { return loop_; }
  PacketServer& server() { return *server_; }

 private:
  void Handle(PacketServer::ConnectionId id, Message message);
  void PrepareUpgrade(PacketServer::ConnectionId id, const Message& message);
  Result<Handover> PackHandover() const;
  Result<void> SetTick();

  const Options& options_;
  FdStore& store_;
  const int lowest_fd_;
  Loop loop_;
  UniqueFd signals_;
  UniqueFd timer_;
  std::chrono::milliseconds tick_{0};  // as the timer is set
  Work work_;
  std::unique_ptr<PacketServer> server_;
  UniqueFd next_binary_;
  uint32_t upgrades_ = 0;
};

}  // namespace holdfast::runtime::keeper
