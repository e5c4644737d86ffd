// SPDX-License-Identifier: Apache-2.0
// image pull: how far a pull is, for people.
#pragma once

#include <string>

#include "agent/cli/session.h"

namespace holdfast::agent::cli {

// Prints the image's digest at the end; with `quiet` its id only. The exit code.
int PullImage(Session& session, const std::string& reference, bool quiet);

}  // namespace holdfast::agent::cli
