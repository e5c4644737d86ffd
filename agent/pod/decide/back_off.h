// SPDX-License-Identifier: Apache-2.0
// Crash and image back-off with Kubernetes' numbers: none before the first restart, then 10 s,
// doubled each time, at most `cap` (300 s); forgotten after a run of more than 600 s. Pure.
#pragma once

#include <chrono>

#include "agent/pod/decide/types.h"

namespace holdfast::agent {

inline constexpr std::chrono::seconds kInitialBackOff{10};
inline constexpr std::chrono::seconds kBackOffReset{600};

// When the container that ended with `last` may start again; fills in `not_before`.
BootTime RestartAllowedAt(BackOff& back_off, const Finished& last, WallTime wall, BootTime boot);

// Counts the restart that happens now after `last`.
void NextRestartBackOff(BackOff& back_off, const Finished& last, std::chrono::seconds cap,
                        WallTime wall);

// Counts an image that could not be had just now.
void NextImageBackOff(BackOff& back_off, WallTime wall, BootTime boot);

}  // namespace holdfast::agent
