// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/client/peers.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/socket.h"
#include "runtime/keeper/common/paths.h"

namespace holdfast::runtime::keeper {
namespace {

Result<std::string> PathOf(const std::string& run_dir, Peer peer) {
  if (peer == Peer::kHolder) return StrCat(run_dir, "/", kHolderSocket);
  if (peer == Peer::kLogger) return StrCat(run_dir, "/", kLoggerSocket);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(AT_FDCWD, run_dir));
  unsigned newest = 0;
  for (const std::string& name : names) newest = std::max(newest, GenerationOfSocketName(name));
  if (newest == 0) return Unavailable(StrCat("no launcher in ", run_dir));
  return StrCat(run_dir, "/", LauncherSocketName(newest));
}

// Its process has not ended, nor closed it.
bool IsOpen(int socket) {
  pollfd fd{socket, POLLIN, 0};
  return ::poll(&fd, 1, 0) == 0;
}

}  // namespace

Result<Peers::Connection> Peers::Connect(Peer peer) {
  ASSIGN_OR_RETURN(std::string path, PathOf(run_dir_, peer));
  UniqueFd socket = TakeIdle(peer, path);
  if (!socket) {
    ASSIGN_OR_RETURN(socket, sys::ConnectSeqpacket(path));
  }
  return Connection{std::move(socket), std::move(path)};
}

void Peers::Keep(Peer peer, Connection connection) {
  const std::lock_guard lock(mutex_);
  idle_[static_cast<size_t>(peer)] = std::move(connection);
}

UniqueFd Peers::TakeIdle(Peer peer, const std::string& path) {
  const std::lock_guard lock(mutex_);
  Connection idle = std::move(idle_[static_cast<size_t>(peer)]);
  if (!idle.socket || idle.path != path || !IsOpen(idle.socket.get())) return {};
  return std::move(idle.socket);
}

}  // namespace holdfast::runtime::keeper
