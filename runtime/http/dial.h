// SPDX-License-Identifier: Apache-2.0
// Dial: a new connection: name to addresses, which are tried beside each other, TLS with ALPN, and HTTP/2 or HTTP/1.1
// as the peer chose. On the thread that runs the io_context. Source: RFC 8305, RFC 7301.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "holdfast/base/result.h"
#include "runtime/http/connection.h"
#include "runtime/http/options.h"

namespace holdfast::runtime::http {

struct DialOptions {
  std::string host;  // a name, or an address without brackets
  uint16_t port = 443;
  std::string server_name;                  // in the peer's certificate; "": `host`
  std::chrono::milliseconds limit{10'000};  // for all of it
  ConnectionOptions connection;
};

// Of a connection that is being made. Destroyed: given up, and nobody is told.
class Dialling {
 public:
  virtual ~Dialling() = default;
};

using Dialled = std::function<void(Result<std::shared_ptr<Connection>>)>;

// `done` is called once, not from within: kUnavailable, kDeadlineExceeded. `tls` verifies as it was told to; beyond
// that the name in the certificate must be right.
[[nodiscard]] std::unique_ptr<Dialling> Dial(boost::asio::io_context& io,
                                             boost::asio::ssl::context tls, DialOptions options,
                                             Dialled done);

}  // namespace holdfast::runtime::http
