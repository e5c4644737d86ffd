// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/web_socket.h"

#include <boost/beast/websocket/ssl.hpp>

#include "agent/api/kubelet/streams/wire/web_socket_over_internal.h"

namespace holdfast::agent::streams {
namespace {

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
  using Tls = boost::beast::ssl_stream<boost::beast::tcp_stream>;
  return std::make_shared<WebSocketOver<Tls>>(std::move(connection.stream),
                                              std::move(connection.request));
}

std::shared_ptr<ByteCarrier> CarryMessages(std::shared_ptr<WebSocket> socket) {
  return std::make_shared<MessageCarrier>(std::move(socket));
}

}  // namespace holdfast::agent::streams
