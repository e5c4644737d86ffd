// SPDX-License-Identifier: Apache-2.0
// An address by its text, of a test's own making.
#pragma once

#include <string>

#include "holdfast/base/ip_address.h"

namespace holdfast::test_support {

inline IpAddress Ip(const std::string& text) { return IpAddress::Parse(text).value(); }

}  // namespace holdfast::test_support
