// SPDX-License-Identifier: Apache-2.0
// The end of a CRI log file, as text without time stamps.
#pragma once

#include <string>

namespace holdfast::agent {

// What the container wrote last into the file `name` of its log directory, both streams in order,
// up to a few KiB; "" when there is no log, or something else in its place.
std::string ReadLogTail(int directory, const std::string& name);

}  // namespace holdfast::agent
