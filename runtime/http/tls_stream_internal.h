// SPDX-License-Identifier: Apache-2.0
// The stream below a connection.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/strings.h"

namespace holdfast::runtime::http {

using TlsStream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket>;
using TlsStreamPtr = std::unique_ptr<TlsStream>;

inline Error StreamFailed(const char* what, const std::string& peer,
                          const boost::system::error_code& error) {
  return Unavailable(StrCat(what, " ", peer, ": ", error.message()));
}

}  // namespace holdfast::runtime::http
