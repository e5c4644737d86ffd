// SPDX-License-Identifier: Apache-2.0
// image tag, prune and du: names, and the room that images take.
#pragma once

#include <string>
#include <vector>

#include "agent/cli/session.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

struct PruneOptions {
  bool all = false;
  bool force = false;                // do not ask
  std::vector<std::string> filters;  // "until=24h"
};

// "until=" with a duration before `now`, an RFC 3339 time, or seconds since 1970; zero for none.
Result<WallTime> UntilOf(const std::vector<std::string>& filters, WallTime now);

// Each returns the exit code.
int TagImage(Session& session, const std::string& source, const std::string& target);
int PruneImages(Session& session, const PruneOptions& options);
int ShowImageUsage(Session& session, bool with_header);

}  // namespace holdfast::agent::cli
