// SPDX-License-Identifier: Apache-2.0
// image pull: how far a pull is, for people.
#pragma once

#include <string>
#include <vector>

#include "agent/cli/session.h"
#include "agent/cli/transfer_view.h"

namespace holdfast::agent::cli {

// One for each layer; none while the registry has not yet said which there are.
std::vector<LayerLine> PullLines(const v1::PullImageResponse::Progress& progress);

// Prints the image's digest at the end; with `quiet` its id only. The exit code.
int PullImage(Session& session, const std::string& reference, bool quiet);

}  // namespace holdfast::agent::cli
