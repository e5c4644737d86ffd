// SPDX-License-Identifier: Apache-2.0
// The requests by which a reflector lists and follows, and how long it waits after a failure. Pure; thread-safe.
// Source: control-plane.md 3.6 and 3.7.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "agent/cluster/reflector.h"

namespace holdfast::agent {

// A watch that sends first what is there, as of now.
std::string WatchListPath(const ReflectorOptions& options, std::chrono::seconds timeout);
// What changed after `version`.
std::string WatchPath(const ReflectorOptions& options, const std::string& version,
                      std::chrono::seconds timeout);
// One page of what is there, at least as new as `version`, or as of now when that is ""; `next` is the token that came with the one before, "" for the first.
std::string ListPath(const ReflectorOptions& options, const std::string& version,
                     const std::string& next);

// After how long the server may end a watch: 5 to 10 min, of a single object 30 to 60 min. `random` is from 0 to 1.
std::chrono::seconds WatchTimeout(const ReflectorOptions& options, double random);

// 0.8 s, doubled with each failure in a row up to 30 s, and up to half of it more.
std::chrono::milliseconds DelayAfter(unsigned failures, double random);

}  // namespace holdfast::agent
