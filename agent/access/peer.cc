// SPDX-License-Identifier: Apache-2.0
#include "agent/access/peer.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/namespaces.h"
#include "holdfast/sys/socket.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5
#endif

namespace holdfast::agent::access {
namespace {

Result<std::vector<gid_t>> PeerGroups(int socket) {
  std::vector<gid_t> groups(64);
  while (true) {
    auto length = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length) == 0) {
      groups.resize(length / sizeof(gid_t));
      return groups;
    }
    // ERANGE: the kernel put the needed length into `length`.
    if (errno != ERANGE || length > 65536 * sizeof(gid_t)) {
      return Error::FromErrno(errno, "getsockopt SO_PEERGROUPS");
    }
    groups.resize(length / sizeof(gid_t));
  }
}

Result<void> RequireSameNamespace(pid_t pid, const char* name) {
  ASSIGN_OR_RETURN(const bool is_same, sys::SharesNamespace(pid, name));
  if (is_same) return {};
  return Error(Code::kPermissionDenied,
               StrCat("peer ", pid, " is in another ", name, " namespace"));
}

// The pid number may have been given to somebody else since connect(2). A pidfd that is not
// readable after the look at /proc says that it was not. Kernels before 6.5 cannot tell.
Result<void> RequireStillAlive(int socket, pid_t pid) {
  int raw = -1;
  socklen_t length = sizeof(raw);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &raw, &length) != 0) {
    if (errno == ENOPROTOOPT) return {};
    return Error::FromErrno(errno, StrCat("getsockopt SO_PEERPIDFD of ", pid));
  }
  const PidFd pidfd(raw);
  pollfd poll_fd{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  if (::poll(&poll_fd, 1, 0) != 0) return Unavailable(StrCat("peer ", pid, " has ended"));
  return {};
}

}  // namespace

Result<Peer> ReadPeer(int socket) {
  ASSIGN_OR_RETURN(const sys::PeerCredentials credentials, sys::GetPeerCredentials(socket));
  if (credentials.pid == 0) {
    return Error(Code::kPermissionDenied, "peer is in a pid namespace that is not ours");
  }
  ASSIGN_OR_RETURN(std::vector<gid_t> groups, PeerGroups(socket));
  groups.push_back(credentials.gid);
  RETURN_IF_ERROR(RequireSameNamespace(credentials.pid, "pid"));
  RETURN_IF_ERROR(RequireSameNamespace(credentials.pid, "user"));
  RETURN_IF_ERROR(RequireStillAlive(socket, credentials.pid));
  return Peer{
      .uid = credentials.uid, .pid = credentials.pid, .groups = std::move(groups), .permitted = {}};
}

}  // namespace holdfast::agent::access
