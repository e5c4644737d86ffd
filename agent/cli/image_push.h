// SPDX-License-Identifier: Apache-2.0
// image push.
#pragma once

#include <string>

#include "agent/cli/session.h"

namespace holdfast::agent::cli {

// `destination`: "" is the image's own name. `quiet`: prints what it is called there, and no more.
int PushImage(Session& session, const std::string& reference, const std::string& destination,
              bool quiet);

}  // namespace holdfast::agent::cli
