// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/web_socket.h"

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <chrono>

namespace holdfast::agent::streams {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;

constexpr size_t kMaxMessage = 32 << 20;
constexpr std::chrono::seconds kWebSocketLinger{1};
constexpr std::chrono::seconds kHandshake{30};

class BeastWebSocket final : public WebSocket, public std::enable_shared_from_this<BeastWebSocket> {
 public:
  explicit BeastWebSocket(UpgradedConnection connection)
      : stream_(std::move(connection.stream)),
        request_(std::move(connection.request)),
        linger_(stream_.get_executor()) {
    beast::get_lowest_layer(stream_).expires_never();
    websocket::stream_base::timeout limits{kHandshake, websocket::stream_base::none(), false};
    stream_.set_option(limits);
    stream_.read_message_max(kMaxMessage);
    stream_.auto_fragment(false);
  }

  void Accept(const std::string& protocol, Done done) override {
    stream_.set_option(
        websocket::stream_base::decorator([protocol](websocket::response_type& answer) {
          answer.erase(beast::http::field::server);
          if (!protocol.empty()) {
            answer.set(beast::http::field::sec_websocket_protocol, protocol);
          }
        }));
    stream_.async_accept(request_, [self = shared_from_this(), done](const auto& error) {
      self->request_ = {};
      done(!error);
    });
  }

  void Read(Received received) override {
    stream_.async_read_some(asio::buffer(piece_),
                            [self = shared_from_this(), received](const auto& error, size_t size) {
                              const bool ok = !error && !self->closing_;
                              received(ok, std::string_view(self->piece_.data(), ok ? size : 0),
                                       ok && self->stream_.is_message_done());
                            });
  }

  void Write(std::string message, bool text, Done done) override {
    out_ = std::move(message);
    stream_.text(text);
    stream_.async_write(asio::buffer(out_), [self = shared_from_this(), done](
                                                const auto& error, size_t) { done(!error); });
  }

  void Close(CloseCode code) override {
    if (std::exchange(closing_, true)) return;
    linger_.expires_after(kWebSocketLinger);
    linger_.async_wait([self = shared_from_this()](const auto&) { self->Drop(); });
    stream_.async_close(websocket::close_reason(static_cast<uint16_t>(code)),
                        [self = shared_from_this()](const auto&) { self->Drop(); });
  }

  void Drop() override {
    closing_ = true;
    linger_.cancel();
    beast::get_lowest_layer(stream_).close();
  }

  int socket() const override {
    return const_cast<BeastWebSocket*>(this)
        ->stream_.next_layer()
        .next_layer()
        .socket()
        .native_handle();
  }

 private:
  websocket::stream<beast::ssl_stream<beast::tcp_stream>> stream_;
  beast::http::request<beast::http::string_body> request_;
  std::string out_;
  std::array<char, 16 * 1024> piece_;
  asio::steady_timer linger_;
  bool closing_ = false;
};

class MessageCarrier final : public ByteCarrier {
 public:
  explicit MessageCarrier(std::shared_ptr<WebSocket> socket) : socket_(std::move(socket)) {}

  void Read(Received received) override {
    socket_->Read([received](bool ok, std::string_view bytes, bool) { received(ok, bytes); });
  }
  void Write(std::string bytes, Done done) override {
    socket_->Write(std::move(bytes), false, std::move(done));
  }
  void End() override { socket_->Close(CloseCode::kNormal); }
  void Drop() override { socket_->Drop(); }
  int socket() const override { return socket_->socket(); }

 private:
  const std::shared_ptr<WebSocket> socket_;
};

}  // namespace

std::shared_ptr<WebSocket> MakeWebSocket(UpgradedConnection connection) {
  return std::make_shared<BeastWebSocket>(std::move(connection));
}

std::shared_ptr<ByteCarrier> CarryMessages(std::shared_ptr<WebSocket> socket) {
  return std::make_shared<MessageCarrier>(std::move(socket));
}

}  // namespace holdfast::agent::streams
