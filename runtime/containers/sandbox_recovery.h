// SPDX-License-Identifier: Apache-2.0
// The namespaces of a pod that the keeper lost, out of a container of the pod that runs: holder and launcher died together, and
// nobody kept their descriptors (docs/keeper.md). They are the very ones: whoever made new ones would cut what runs off from the
// pod's network. The mount namespace of that container stands for /dev/shm and procfs (launch/step_shared_mounts.cc), and lives
// as long as the sandbox then. Source: namespaces(7).
#pragma once

#include <vector>

#include "runtime/containers/parts.h"

namespace holdfast::runtime {

// By the names of KeeperClient::MakeSandbox. Empty when no container runs that is in its pod's namespaces still. Without "shm"
// where those that run have something else on their /dev/shm: who starts later gets one of its own.
std::vector<keeper::KeptFd> RecoverSandbox(Parts& parts, const model::SandboxSpec& spec);

}  // namespace holdfast::runtime
