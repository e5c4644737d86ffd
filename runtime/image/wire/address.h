// SPDX-License-Identifier: Apache-2.0
// The parts of an http or https URL that decide who is asked: a reader that refuses what it does
// not know rather than repair it. Pure. Source: RFC 3986, 3.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/base/result.h"

namespace holdfast::runtime::fetch {

struct Address {
  std::string scheme;  // "http" or "https"
  std::string host;    // lower case, an IPv6 address in brackets
  uint16_t port = 0;   // the scheme's own when none was given
  std::string path;    // with the query; "" or "/…"

  // Two URLs of one origin reach the same server in the same way.
  std::string Origin() const;
  bool IsSecure() const { return scheme == "https"; }
  // "localhost", 127.0.0.0/8, [::1]: the bytes never leave the machine.
  bool IsLoopback() const;
};

// kInvalidArgument for another scheme, a user name, a fragment, control or non-ASCII characters.
Result<Address> ParseAddress(const std::string& url);

// For messages: without the query, which may hold a signature, and without a user.
std::string Shown(const std::string& url);

}  // namespace holdfast::runtime::fetch
