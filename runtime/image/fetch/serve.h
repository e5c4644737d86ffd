// SPDX-License-Identifier: Apache-2.0
// The loop of holdfast-fetch: requests from the agent's socket, transfers side by side, until the
// agent closes the socket. Single-thread (libcurl resolves names in threads of its own).
#pragma once

#include <string>

#include "holdfast/base/result.h"

namespace holdfast::runtime::fetch {

// At most so many at a time; the agent asks for fewer.
inline constexpr size_t kMaxTransfers = 64;

Result<void> Serve(int socket, const std::string& system_authorities);

}  // namespace holdfast::runtime::fetch
