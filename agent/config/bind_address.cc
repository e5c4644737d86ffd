// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <system_error>

#include "agent/config/agent_config.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {

Result<std::optional<model::Endpoint>> ParseBindAddress(const std::string& text) {
  if (text.empty()) return std::optional<model::Endpoint>();
  const size_t colon = text.rfind(':');
  const auto wrong = [&] {
    return InvalidArgument(
        StrCat("\"", text, "\" is not of the form 192.0.2.1:80 or [2001:db8::1]:80"));
  };
  if (colon == std::string::npos) return wrong();
  std::string host = text.substr(0, colon);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  const auto address = IpAddress::Parse(host);
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (!address || address->v6 != brackets || error != std::errc() || stop != end || port == 0) {
    return wrong();
  }
  return std::optional(model::Endpoint{*address, port});
}

}  // namespace holdfast::agent
