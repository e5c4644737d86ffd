// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/tls_carrier.h"

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <chrono>

namespace holdfast::agent::streams {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

constexpr std::chrono::seconds kLinger{1};

class TlsCarrier final : public ByteCarrier, public std::enable_shared_from_this<TlsCarrier> {
 public:
  explicit TlsCarrier(UpgradedConnection connection)
      : stream_(std::move(connection.stream)),
        early_(beast::buffers_to_string(connection.rest.data())),
        linger_(stream_.get_executor()) {
    beast::get_lowest_layer(stream_).expires_never();
  }

  void Read(Received received) override {
    if (!early_.empty()) {
      return asio::post(stream_.get_executor(), [self = shared_from_this(), received] {
        received(true, std::exchange(self->early_, {}));
      });
    }
    reading_ = true;
    stream_.async_read_some(asio::buffer(piece_), [self = shared_from_this(), received](
                                                      const auto& error, size_t size) {
      self->reading_ = false;
      if (self->ending_) return self->SayGoodbye();
      received(!error, std::string_view(self->piece_.data(), error ? 0 : size));
    });
  }

  void Write(std::string bytes, Done done) override {
    out_ = std::move(bytes);
    asio::async_write(
        stream_, asio::buffer(out_),
        [self = shared_from_this(), done](const auto& error, size_t) { done(!error); });
  }

  void End() override {
    if (std::exchange(ending_, true)) return;
    linger_.expires_after(kLinger);
    linger_.async_wait([self = shared_from_this()](const auto&) { self->Drop(); });
    if (!reading_) return SayGoodbye();
    boost::system::error_code ignored;
    beast::get_lowest_layer(stream_).socket().cancel(ignored);  // and then goodbye
  }

  void Drop() override {
    ending_ = true;
    linger_.cancel();
    beast::get_lowest_layer(stream_).close();
  }

  int socket() const override {
    return const_cast<TlsCarrier*>(this)->stream_.next_layer().socket().native_handle();
  }

 private:
  // TLS' own, which fails when the peer still sends; so it is the end of the stream that tells.
  void SayGoodbye() {
    stream_.async_shutdown([self = shared_from_this()](const auto&) {
      boost::system::error_code ignored;
      beast::get_lowest_layer(self->stream_)
          .socket()
          .shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
      self->ReadOff(true);
    });
  }

  // Below TLS: nobody wants to know what it says.
  void ReadOff(bool ok) {
    if (!ok) return Drop();
    beast::get_lowest_layer(stream_).socket().async_read_some(
        asio::buffer(piece_), [self = shared_from_this()](const auto& error, size_t) {
          if (error == asio::error::operation_aborted) return;
          self->ReadOff(!error);
        });
  }

  beast::ssl_stream<beast::tcp_stream> stream_;
  std::string early_;
  std::string out_;
  std::array<char, 16 * 1024> piece_;
  asio::steady_timer linger_;
  bool reading_ = false;
  bool ending_ = false;
};

}  // namespace

std::shared_ptr<ByteCarrier> CarryTls(UpgradedConnection connection) {
  return std::make_shared<TlsCarrier>(std::move(connection));
}

}  // namespace holdfast::agent::streams
