// SPDX-License-Identifier: Apache-2.0
// The system calls of a process that speaks HTTP and nothing else; needs no_new_privs.
#pragma once

#include "holdfast/base/result.h"

namespace holdfast::runtime::fetch {

// Every other call kills the process, also a socket of another family than IPv4, IPv6 and
// NETLINK_ROUTE (getaddrinfo asks it for the node's addresses); one of AF_UNIX is refused.
Result<void> ConfineCalls();

}  // namespace holdfast::runtime::fetch
