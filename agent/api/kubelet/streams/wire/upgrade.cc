// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/wire/upgrade.h"

#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include "agent/api/kubelet/streams/wire/protocols.h"

namespace holdfast::agent::streams {
namespace {

namespace http = boost::beast::http;
using UpgradeRequest = http::request<http::string_body>;

std::vector<std::string> WordsOf(const UpgradeRequest& request, boost::beast::string_view name) {
  std::vector<std::string> words;
  const auto lines = request.equal_range(name);
  for (auto line = lines.first; line != lines.second; ++line) {
    const auto value = line->value();
    for (std::string& word : HeaderWords({value.data(), value.size()})) {
      words.push_back(std::move(word));
    }
  }
  return words;
}

bool IsSpdy(const UpgradeRequest& request) {
  return http::token_list(request[http::field::connection]).exists("upgrade") &&
         boost::beast::iequals(request[http::field::upgrade], "SPDY/3.1");
}

}  // namespace

Upgrade ReadUpgrade(const UpgradeRequest& request) {
  if (boost::beast::websocket::is_upgrade(request)) {
    return {UpgradeTo::kWebSocket, WordsOf(request, "Sec-WebSocket-Protocol")};
  }
  if (IsSpdy(request)) return {UpgradeTo::kSpdy, WordsOf(request, kProtocolVersion)};
  return {};
}

}  // namespace holdfast::agent::streams
