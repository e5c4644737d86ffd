// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <optional>
#include <string>

#include "agent/api/kubelet/streams/wire/protocols.h"
#include "agent/api/kubelet/streams/wire/stream_request.h"
#include "agent/api/kubelet/streams/wire/upgrade.h"
#include "agent/http/request_reading_internal.h"
#include "tests/fuzz/agent/streams/targets.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using namespace agent;
using FuzzedRequest = http::request<http::string_body>;

constexpr HttpsLimits kSmall{.header_bytes = 1024, .body_bytes = 256};

// So many bytes at a time, then the end.
class MemoryReader {
 public:
  MemoryReader(std::string_view input, size_t step) : input_(input), step_(step) {}
  template <class Buffers>
  size_t read_some(const Buffers& buffers, beast::error_code& error) {
    const size_t size = asio::buffer_copy(buffers, asio::buffer(input_.substr(0, step_)));
    input_.remove_prefix(size);
    error = size == 0 ? beast::error_code(asio::error::eof) : beast::error_code();
    return size;
  }
  // Beast asks whether it is there.
  template <class Buffers>
  size_t read_some(const Buffers& buffers) {
    beast::error_code error;
    return read_some(buffers, error);
  }

 private:
  std::string_view input_;
  const size_t step_;
};

// As an HttpsConnection reads one.
std::optional<FuzzedRequest> ReadRequest(std::string_view bytes, size_t step) {
  MemoryReader from(bytes, step);
  beast::flat_buffer buffer(kSmall.header_bytes + 1024);
  RequestParser parser;
  Limit(parser, kSmall);
  beast::error_code error;
  http::read_header(from, buffer, parser, error);
  if (!error && AnnouncesTooMuch(parser, kSmall)) error = http::error::body_limit;
  if (!error) http::read(from, buffer, parser, error);
  if (!error) return parser.release();
  const auto refusal = RefusalOf(error);
  Require(!refusal || (refusal->status >= 400 && refusal->status <= 431), "a client's fault",
          bytes);
  return std::nullopt;
}

bool AreAlike(const FuzzedRequest& a, const FuzzedRequest& b) {
  const auto same = [](const auto& x, const auto& y) {
    return x.name_string() == y.name_string() && x.value() == y.value();
  };
  return a.method_string() == b.method_string() && a.target() == b.target() &&
         a.version() == b.version() && a.body() == b.body() && a.keep_alive() == b.keep_alive() &&
         std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

bool Offers(const streams::Upgrade& upgrade, const std::string& name) {
  return std::find(upgrade.offered.begin(), upgrade.offered.end(), name) != upgrade.offered.end();
}

void CheckUpgrade(const FuzzedRequest& request, std::string_view input) {
  const streams::Upgrade upgrade = streams::ReadUpgrade(request);
  const bool asks = upgrade.to != streams::UpgradeTo::kNothing;
  Require(asks || upgrade.offered.empty(), "protocols of an upgrade only", input);
  for (const std::string& word : upgrade.offered) {
    Require(!word.empty() && word.find(',') == std::string::npos, "a list's words", input);
  }
  if (const auto chosen = streams::ChooseSpdyProtocol(upgrade.offered)) {
    Require(Offers(upgrade, chosen->name), "what is chosen was offered (SPDY)", input);
  }
  for (const auto& chosen : {streams::ChooseChannelProtocol(upgrade.offered),
                             streams::ChooseForwardProtocol(upgrade.offered)}) {
    const bool told = !chosen || Offers(upgrade, chosen->name);
    Require(told || upgrade.offered.empty(), "what is chosen was offered", input);
  }
}

}  // namespace

void FuzzHttpRequest(std::string_view input) {
  if (input.empty()) return;
  const size_t step = 1 + static_cast<unsigned char>(input[0]) % 16;
  const std::string_view bytes = input.substr(1);
  const auto cut = ReadRequest(bytes, step);
  const auto whole = ReadRequest(bytes, bytes.size() + 1);
  Require(cut.has_value() == whole.has_value(), "it does not matter how bytes come", input);
  if (!whole) return;
  Require(AreAlike(*cut, *whole), "nor is the request another", input);
  Require(whole->body().size() <= kSmall.body_bytes, "a body within its limit", input);
  CheckUpgrade(*whole, input);
  const auto target = whole->target();
  (void)streams::ParseStreamRequest(
      {target.data(), target.size()});  // a target of its own has its promises
}

}  // namespace holdfast::fuzz
