// SPDX-License-Identifier: Apache-2.0
// WebSocketOver: a WebSocket over whatever carries its bytes: TLS, and in tests memory. The layer below has, beside
// what Beast asks of an asynchronous stream, a lowest layer with expires_never(), close() and socket().
#pragma once

#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "agent/api/kubelet/streams/wire/web_socket.h"

namespace holdfast::agent::streams {

inline constexpr size_t kMaxMessage = 32 << 20;
inline constexpr std::chrono::seconds kWebSocketLinger{1};
inline constexpr std::chrono::seconds kWebSocketHandshake{30};

template <class Layer>
class WebSocketOver final : public WebSocket,
                            public std::enable_shared_from_this<WebSocketOver<Layer>> {
 public:
  using Request = boost::beast::http::request<boost::beast::http::string_body>;

  WebSocketOver(Layer layer, Request request)
      : stream_(std::move(layer)), request_(std::move(request)), linger_(stream_.get_executor()) {
    Lowest().expires_never();
    stream_.set_option(Base::timeout{kWebSocketHandshake, Base::none(), false});
    stream_.read_message_max(kMaxMessage);
    stream_.auto_fragment(false);
  }

  void Accept(const std::string& protocol, Done done) override {
    using boost::beast::http::field;
    stream_.set_option(Base::decorator([protocol](boost::beast::websocket::response_type& answer) {
      answer.erase(field::server);
      if (!protocol.empty()) answer.set(field::sec_websocket_protocol, protocol);
    }));
    stream_.async_accept(request_, [self = this->shared_from_this(), done](const auto& error) {
      self->request_ = {};
      done(!error);
    });
  }

  void Read(Received received) override {
    stream_.async_read_some(
        boost::asio::buffer(piece_),
        [self = this->shared_from_this(), received](const auto& error, size_t size) {
          const bool ok = !error && !self->closing_;
          received(ok, std::string_view(self->piece_.data(), ok ? size : 0),
                   ok && self->stream_.is_message_done());
        });
  }

  void Write(std::string message, bool text, Done done) override {
    out_ = std::move(message);
    stream_.text(text);
    stream_.async_write(
        boost::asio::buffer(out_),
        [self = this->shared_from_this(), done](const auto& error, size_t) { done(!error); });
  }

  void Close(CloseCode code) override {
    if (std::exchange(closing_, true)) return;
    linger_.expires_after(kWebSocketLinger);
    linger_.async_wait([self = this->shared_from_this()](const auto&) { self->Drop(); });
    stream_.async_close(boost::beast::websocket::close_reason(static_cast<uint16_t>(code)),
                        [self = this->shared_from_this()](const auto&) { self->Drop(); });
  }

  void Drop() override {
    closing_ = true;
    linger_.cancel();
    Lowest().close();
  }

  int socket() const override {
    return const_cast<WebSocketOver*>(this)->Lowest().socket().native_handle();
  }

 private:
  using Base = boost::beast::websocket::stream_base;
  auto& Lowest() { return boost::beast::get_lowest_layer(stream_); }

  boost::beast::websocket::stream<Layer> stream_;
  Request request_;
  std::string out_;
  std::array<char, 16 * 1024> piece_;
  boost::asio::steady_timer linger_;
  bool closing_ = false;
};

}  // namespace holdfast::agent::streams
