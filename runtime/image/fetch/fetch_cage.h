// SPDX-License-Identifier: Apache-2.0
// The cage of holdfast-fetch, entered before it hears of a registry: user and group 65534, no
// capability, no_new_privs, not dumpable, dies with the agent's thread; "/" is a read-only tmpfs
// with what names are resolved by (resolv.conf, hosts, nsswitch.conf) and nothing else; rlimits; a
// seccomp list without exec, fork, files to write, Unix sockets, tracing and executable memory.
// The network is the node's: that is its purpose.
#pragma once

#include "holdfast/base/result.h"

namespace holdfast::runtime::fetch {

// Without privilege (rootless) user and root stay as they are; the rest applies.
Result<void> EnterCage();

}  // namespace holdfast::runtime::fetch
