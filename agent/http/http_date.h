// SPDX-License-Identifier: Apache-2.0
// Times as HTTP's headers have them (RFC 9110, 5.6.7). Pure; thread-safe.
#pragma once

#include <ctime>
#include <string>

namespace holdfast::agent {

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string HttpDate(std::time_t time);

}  // namespace holdfast::agent
