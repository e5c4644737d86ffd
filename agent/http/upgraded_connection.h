// SPDX-License-Identifier: Apache-2.0
// A connection that left the HTTP server: its request was read and permitted; who takes it answers it and ends it.
#pragma once
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <string>
namespace holdfast::agent {
struct UpgradedConnection {
  boost::beast::ssl_stream<boost::beast::tcp_stream> stream;  // on the server's executor
  boost::beast::http::request<boost::beast::http::string_body> request;
  boost::beast::flat_buffer rest;  // read beyond the request
  std::string user = {};           // who asks, as whoever permitted it knows him
  std::string from = {};           // "192.0.2.1:4711"
};
}  // namespace holdfast::agent
