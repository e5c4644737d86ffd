// SPDX-License-Identifier: Apache-2.0
// Peers: holder, launcher and logger as their clients reach them. Each is looked for by its path again for every call, since
// another one may serve by now; to one that still does, the connection that an earlier call has left is used again, which
// spares both sides to make one and to end it.
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime::keeper {

enum class Peer : uint8_t { kHolder, kLauncher, kLogger };

class Peers {
 public:
  // For one call at a time.
  struct Connection {
    UniqueFd socket;
    std::string path;
  };

  explicit Peers(std::string run_dir) : run_dir_(std::move(run_dir)) {}
  const std::string& run_dir() const { return run_dir_; }

  // kUnavailable or ENOENT: nobody serves as `peer` at the moment.
  Result<Connection> Connect(Peer peer);
  // Nothing may be under way on it: every answer that the peer owes was received. One for each process waits, since the keeper
  // has a descriptor for it as well; calls beside each other make their own.
  void Keep(Peer peer, Connection connection);

 private:
  // Invalid: none leads to who serves at `path`. One that leads elsewhere is closed.
  UniqueFd TakeIdle(Peer peer, const std::string& path);

  const std::string run_dir_;
  std::mutex mutex_;
  std::array<Connection, 3> idle_;  // by Peer; without a socket: none
};

}  // namespace holdfast::runtime::keeper
