// SPDX-License-Identifier: Apache-2.0
// Starting the keeper where no systemd does it. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/instance.h"
#include "runtime/containers/options.h"

namespace holdfast::runtime {

// Starts `<keeper_binary> hold` as nobody's child of ours (forked twice, session of its own), so
// that it outlives us; returns once the process exists. It gets an environment of its own
// (sys::OwnProgramEnvironment) and the limits that its containers are to inherit. Two holders do
// not hurt: the second one ends.
Result<void> SpawnKeeper(const RuntimeOptions& options);

// A pidfd of the holder that listens now; fails when nobody does. Never blocks for long.
Result<PidFd> FindHolder(const model::Instance& instance);

// The bounding set of the holder, which its launcher has too: what a container can be given at
// most. The agent's own may be smaller (packaging/systemd/holdfastd.service). proc_pid_status(5).
Result<uint64_t> KeeperCapabilities(const model::Instance& instance);

// Waits until the keeper answers, starting it first when there is a `keeper_binary` and nobody
// answers. kUnavailable after ten seconds. Returns a pidfd of its holder.
Result<PidFd> EnsureKeeper(const RuntimeOptions& options);

}  // namespace holdfast::runtime
