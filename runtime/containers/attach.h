// SPDX-License-Identifier: Apache-2.0
// A running container's own streams: copies of its output from the logger, and its stdin or terminal from
// the holder. Thread-safe; calls the keeper.
#pragma once

#include "holdfast/interfaces/container_runtime.h"
#include "runtime/containers/parts.h"

namespace holdfast::runtime {

Result<AttachedStreams> AttachTo(Parts& parts, const TableEntry& container, const AttachSpec& spec);
Result<void> CloseStdinOf(Parts& parts, const TableEntry& container);

}  // namespace holdfast::runtime
