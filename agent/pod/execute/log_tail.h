// SPDX-License-Identifier: Apache-2.0
// The end of a CRI log file, as text without time stamps.
#pragma once

#include <string>

namespace holdfast::agent {

// What the container wrote last, both streams in order, up to a few KiB; "" when there is no log.
std::string ReadLogTail(const std::string& path);

}  // namespace holdfast::agent
