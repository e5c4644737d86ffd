// SPDX-License-Identifier: Apache-2.0
// What a request wants its connection to become, and which sub-protocols its client speaks. Pure.
// Source: control-plane 7.3 to 7.6.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::agent::streams {

inline constexpr char kProtocolVersion[] = "X-Stream-Protocol-Version";

enum class UpgradeTo : uint8_t { kNothing, kWebSocket, kSpdy };

struct Upgrade {
  UpgradeTo to = UpgradeTo::kNothing;
  std::vector<std::string> offered;  // all lines of the header, in the client's order
};
Upgrade ReadUpgrade(const boost::beast::http::request<boost::beast::http::string_body>& request);

}  // namespace holdfast::agent::streams
