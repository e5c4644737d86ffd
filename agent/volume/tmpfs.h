// SPDX-License-Identifier: Apache-2.0
// A tmpfs that is not swapped out, where the kernel can keep it from that. Thread-safe. Source: tmpfs(5).
#pragma once

#include <string>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// Linux 6.4 and newer, and not for an agent in a user namespace. Tried once.
bool KeepsTmpfsFromSwap();

// `flags`: MS_*; `options`: as mount(2) takes them.
Result<void> MountTmpfs(const char* source, const std::string& path, unsigned long flags,
                        std::string options);

}  // namespace holdfast::agent
