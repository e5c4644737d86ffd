// SPDX-License-Identifier: Apache-2.0
// A connection to a port inside a pod. Thread-safe; blocks, with a limit.
#pragma once

#include <cstdint>

#include "agent/stream/descriptor_session.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent {

// TCP to 127.0.0.1 and, if nobody listens there, ::1, in the network namespace `netns` (-1: the caller's).
// The error is of the first, as Go's dialers word it: "dial tcp 127.0.0.1:80: connect: connection refused".
Result<UniqueFd> DialLoopback(int netns, uint16_t port);

// A connected socket, both ways.
Result<SessionEnds> EndsOfSocket(UniqueFd socket);

}  // namespace holdfast::agent
