// SPDX-License-Identifier: Apache-2.0
// A host and a port in one text, as Go's net.JoinHostPort has it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast {

// "192.0.2.1:80", "[2001:db8::1]:80".
inline std::string JoinHostPort(std::string_view host, uint32_t port) {
  const bool brackets = host.find(':') != std::string_view::npos;
  return brackets ? StrCat("[", host, "]:", port) : StrCat(host, ":", port);
}

}  // namespace holdfast
