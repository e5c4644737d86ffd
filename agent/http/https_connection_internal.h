// SPDX-License-Identifier: Apache-2.0
// HttpsConnection: one client of an HttpsServer: handshake, then requests, one after the other. On the server's thread.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/http/exchange.h"
#include "agent/http/https_server.h"
#include "agent/http/request_reading_internal.h"

namespace holdfast::agent {

class HttpsConnection : public std::enable_shared_from_this<HttpsConnection> {
 public:
  HttpsConnection(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context& tls,
                  const HttpsServerOptions& options);

  void Run();
  // At once. Who reads a body is told.
  void Close();
  // Nothing is being answered: it may be closed to make room.
  bool IsWaiting() const { return state_ == State::kHandshake || state_ == State::kRequest; }
  bool IsOpen() const { return state_ != State::kClosed; }
  const std::string& address() const { return address_; }

 private:
  class OneExchange;
  enum class State : uint8_t { kHandshake, kRequest, kAnswer, kBody, kClosed };
  using Response = boost::beast::http::response<boost::beast::http::string_body>;
  using Head = boost::beast::http::response<boost::beast::http::empty_body>;

  void AfterHandshake();
  void KeepCertificates();
  void WaitForRequest();
  void ReadHead();
  void ReadBody();
  void OnUnreadable(const boost::system::error_code& error);
  void Refuse(unsigned status, const std::string& text);
  void Handle();
  void WriteAnswer(const HttpAnswer& answer);
  void AfterAnswer();
  void BeginBody(const HttpAnswer& head, BodyEvents events);
  void WriteHead();
  void WritePiece(std::string piece);
  void EndBody();
  void AfterPiece(const boost::system::error_code& error);
  void WatchClient();
  void Finish();
  void ShutDown();
  void ExpireAfter(std::chrono::milliseconds limit);

  const HttpsServerOptions& options_;
  boost::beast::ssl_stream<boost::beast::tcp_stream> stream_;
  boost::beast::flat_buffer buffer_;
  std::string peer_, address_;
  std::vector<std::string> certificates_;
  State state_ = State::kHandshake;

  // Of the request that is being read or answered:
  std::optional<RequestParser> parser_;
  unsigned version_ = 11;
  bool keep_alive_ = false, only_head_ = false;
  std::optional<Response> response_;
  std::optional<Head> head_;
  std::optional<boost::beast::http::response_serializer<boost::beast::http::empty_body>>
      serializer_;
  std::string piece_;
  BodyEvents events_;
  bool watching_ = false, finishing_ = false;
};

}  // namespace holdfast::agent
