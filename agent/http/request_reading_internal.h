// SPDX-License-Identifier: Apache-2.0
// How much of a request is read, and what is said to a client whose request is not taken. Pure.
#pragma once

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <optional>

#include "agent/http/https_limits.h"

namespace holdfast::agent {

using RequestParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

inline void Limit(RequestParser& parser, const HttpsLimits& limits) {
  parser.header_limit(static_cast<uint32_t>(limits.header_bytes));
  parser.body_limit(limits.body_bytes);
}

// Asked once the head is read: Beast 1.74 forgets the limit of a body that comes with the head.
inline bool AnnouncesTooMuch(const RequestParser& parser, const HttpsLimits& limits) {
  const auto announced = parser.content_length();
  return announced && *announced > limits.body_bytes;
}

struct UnreadableRequest {
  unsigned status;
  const char* text;
};
// Nothing: the transport has ended, and nobody is there to be told.
inline std::optional<UnreadableRequest> RefusalOf(const boost::beast::error_code& error) {
  using HttpError = boost::beast::http::error;
  if (error == HttpError::header_limit || error == HttpError::buffer_overflow) {
    return UnreadableRequest{431, "431 Request Header Fields Too Large"};
  }
  if (error == HttpError::body_limit) {
    return UnreadableRequest{413, "413 Request Entity Too Large"};
  }
  const bool of_transport =
      error == HttpError::end_of_stream || error == HttpError::partial_message ||
      error.category() != boost::beast::http::make_error_code(HttpError::bad_value).category();
  if (of_transport) return std::nullopt;
  return UnreadableRequest{400, "400 Bad Request"};
}

}  // namespace holdfast::agent
