// SPDX-License-Identifier: Apache-2.0
// Writes files of this machine as a tar stream (GNU's, which busybox reads too: names of any length, sizes
// beyond 8 GiB).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

// Takes the next bytes; false ends the writing.
using ByteSink = std::function<bool(std::string_view)>;

// What lies in `directory`, an OCI layout: directories and regular files, nobody's in particular. kUnsupported
// for anything else; kUnavailable when the sink ended it.
Result<void> WriteTar(const std::string& directory, const ByteSink& sink);

// `path` and what lies in it, called `name`: files, directories and symbolic links with owner, permissions
// and time. Sockets are left out, as tar does; of devices and pipes only the node is written.
Result<void> WriteTarAs(const std::string& path, const std::string& name, const ByteSink& sink);

struct TarMember {
  std::string name;
  int file = -1;  // a regular one of the caller's, read from its beginning
  uint64_t size = 0;
};

// These files, nobody's in particular.
Result<void> WriteTarOf(const std::vector<TarMember>& members, const ByteSink& sink);

}  // namespace holdfast::agent::cli
