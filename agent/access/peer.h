// SPDX-License-Identifier: Apache-2.0
// Peer: who is at the other end of a unix socket, as the kernel says it. Thread-safe: no state.
#pragma once

#include <sys/types.h>

#include <vector>

#include "agent/access/roles.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::access {

struct Peer {
  uid_t uid = 0;
  pid_t pid = 0;              // at connect(2); for display
  std::vector<gid_t> groups;  // primary and supplementary
  OperationSet permitted;     // what the role table gives
};

// Credentials of connect() time (SO_PEERCRED, SO_PEERGROUPS). kPermissionDenied for a peer in
// another pid or user namespace than ours: a socket that leaked into a container is no way in.
Result<Peer> ReadPeer(int socket);

}  // namespace holdfast::agent::access
