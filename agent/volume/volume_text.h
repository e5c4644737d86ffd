// SPDX-License-Identifier: Apache-2.0
// A text that a container wrote into a volume. Thread-safe: no state.
#pragma once

#include <cstddef>
#include <string>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// The file `path` of the volume that lies at `volume`: links lead where they lead in a container whose root the volume
// is, and nothing but a regular file is opened. kResourceExhausted: it has more than `limit` bytes.
Result<std::string> ReadVolumeText(const std::string& volume, const std::string& path,
                                   size_t limit);

}  // namespace holdfast::agent
