// SPDX-License-Identifier: Apache-2.0
// image import --containerd: what a node's former containerd has, one archive for each content with all its names.
#pragma once

#include "agent/cli/image_import.h"

namespace holdfast::agent::cli {

// Goes on with the others when one fails. kFailed when any did, or a name that was asked for is not there.
int ImportContainerd(Session& session, const ImportFlags& flags);

}  // namespace holdfast::agent::cli
