// SPDX-License-Identifier: Apache-2.0
// Starting the keeper where no systemd does it. Thread-safe: no state.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/instance.h"

namespace holdfast::runtime {

// Starts `binary hold` as nobody's child of ours (forked twice, session of its own), so that it
// outlives us; returns once the process exists. Two holders do not hurt: the second one ends.
Result<void> SpawnKeeper(const std::string& binary, const model::Instance& instance);

// A pidfd of the holder that listens now; fails when nobody does. Never blocks for long.
Result<PidFd> FindHolder(const model::Instance& instance);

// Waits until the keeper answers, starting it first when `binary` is not "" and nobody answers.
// kUnavailable after ten seconds. Returns a pidfd of its holder.
Result<PidFd> EnsureKeeper(const std::string& binary, const model::Instance& instance);

}  // namespace holdfast::runtime
