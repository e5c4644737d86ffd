// SPDX-License-Identifier: Apache-2.0
// H1Connection: HTTP/1.1 on a TLS stream, one request at a time; reading pauses while a window of the body is not
// consumed. Kept alive by its own operations, hence a shared_ptr.
#pragma once

#include "runtime/http/tls_stream_internal.h"  // first, for Boost 1.74

#include <array>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <memory>
#include <optional>
#include <string>

#include "runtime/http/connection.h"

namespace holdfast::runtime::http {

class H1Connection : public Connection, public std::enable_shared_from_this<H1Connection> {
 public:
  H1Connection(TlsStreamPtr stream, std::string peer);

  Result<StreamId> Start(Request request, std::shared_ptr<ResponseHandler> handler) override;
  void Consume(StreamId stream, size_t bytes) override;
  void Cancel(StreamId stream) override;
  void Drain() override;
  void Close(const Error& why) override;
  bool multiplexed() const override { return false; }
  bool usable() const override { return !closed_ && !draining_; }
  bool closed() const override { return closed_; }
  size_t room() const override { return usable() && handler_ == nullptr && !IsStale() ? 1 : 0; }
  size_t running() const override { return handler_ != nullptr ? 1 : 0; }

 private:
  using Body = boost::beast::http::buffer_body;
  using Parser = boost::beast::http::response_parser<Body>;
  using Message = boost::beast::http::request<boost::beast::http::string_body>;

  bool IsStale() const;
  void Write(StreamId stream);
  void ReadHead(StreamId stream);
  void TakeHead(StreamId stream);
  void ReadBody(StreamId stream);
  void TakeBody(StreamId stream, const boost::system::error_code& failed);
  void Complete();
  void Fail(const Error& why);

  const TlsStreamPtr stream_;
  const std::string peer_;
  boost::beast::flat_buffer buffer_;
  std::array<char, 16 << 10> body_{};
  Message request_;
  std::optional<Parser> parser_;
  std::shared_ptr<ResponseHandler> handler_;  // the caller's; null: nothing is under way
  StreamId last_ = 0;                         // the number of what is or was under way
  uint64_t body_limit_ = 0, received_ = 0;
  size_t unconsumed_ = 0;
  size_t header_bytes_ = 0;  // of the answer and of those of 1xx before it
  bool paused_ = false, draining_ = false, closed_ = false;
};

}  // namespace holdfast::runtime::http
