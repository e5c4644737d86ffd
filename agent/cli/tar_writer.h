// SPDX-License-Identifier: Apache-2.0
// Writes a directory (an OCI layout) as a tar stream: directories and regular files only, names up
// to 100 bytes, since that is all that a layout has.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

// Takes the next bytes; false ends the writing.
using ByteSink = std::function<bool(std::string_view)>;

// kUnsupported for a symlink or device and for a longer name; kUnavailable when the sink ended it.
Result<void> WriteTar(const std::string& directory, const ByteSink& sink);

}  // namespace holdfast::agent::cli
