// SPDX-License-Identifier: Apache-2.0
#include "runtime/http/dial.h"

#include <netinet/tcp.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/steady_timer.hpp>
#include <string_view>
#include <vector>

#include "runtime/http/h1_connection_internal.h"
#include "runtime/http/h2_connection_internal.h"
#include "runtime/http/tls_stream_internal.h"

namespace holdfast::runtime::http {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using std::chrono::milliseconds;

constexpr milliseconds kNextAddressAfter{250};  // RFC 8305, section 5
constexpr size_t kMostAddresses = 16;
constexpr unsigned char kProtocols[] = "\x02h2\x08http/1.1";

template <int kName>
using TcpOption = asio::detail::socket_option::integer<IPPROTO_TCP, kName>;

// HTTP/1.1 has no ping.
void KeepAlive(Tcp::socket& socket) {
  error_code ignored;
  (void)socket.set_option(asio::socket_base::keep_alive(true), ignored);
  (void)socket.set_option(TcpOption<TCP_KEEPIDLE>(30), ignored);
  (void)socket.set_option(TcpOption<TCP_KEEPINTVL>(5), ignored);
  (void)socket.set_option(TcpOption<TCP_KEEPCNT>(3), ignored);
}

// One dial from name to connection. Kept alive by its own operations, hence a shared_ptr.
class Dialler : public std::enable_shared_from_this<Dialler> {
 public:
  Dialler(asio::io_context& io, ssl::context tls, DialOptions options, Dialled done)
      : io_(io),
        tls_(std::move(tls)),
        options_(std::move(options)),
        peer_(StrCat(options_.host, ":", options_.port)),
        done_(std::move(done)),
        limit_(io),
        next_(io),
        resolver_(io) {}

  void Begin() {
    limit_.expires_after(options_.limit);
    limit_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (cancelled || !self->done_) return;
      self->End(Error(Code::kDeadlineExceeded, StrCat("connect ", self->peer_, ": not within ",
                                                      self->options_.limit.count(), " ms")));
    });
    asio::post(io_, [self = shared_from_this()] {
      if (self->done_) self->Resolve();
    });
  }

  void GiveUp() {
    done_ = nullptr;
    CloseAll();
  }

 private:
  using SocketPtr = std::shared_ptr<Tcp::socket>;  // of its own operation, too

  // An address is not looked up: that would take a thread, which the kernel may refuse.
  void Resolve() {
    error_code not_an_address;
    const auto address = asio::ip::make_address(options_.host, not_an_address);
    if (!not_an_address) {
      addresses_.emplace_back(address, options_.port);
      return ConnectNext();
    }
    try {
      resolver_.async_resolve(
          options_.host, StrCat(options_.port),
          [self = shared_from_this()](const error_code& failed,
                                      const Tcp::resolver::results_type& found) {
            if (!self->done_) return;
            if (failed) return self->End(StreamFailed("resolve", self->peer_, failed));
            self->Order(found);
            self->ConnectNext();
          });
    } catch (const boost::system::system_error& error) {
      End(StreamFailed("resolve", peer_, error.code()));
    }
  }

  // The families take turns, so that a broken one costs one step only.
  void Order(const Tcp::resolver::results_type& found) {
    std::vector<Tcp::endpoint> first, other;
    for (const auto& entry : found) {
      const bool same = first.empty() || entry.endpoint().protocol() == first.front().protocol();
      (same ? first : other).push_back(entry.endpoint());
    }
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      if (i < first.size()) addresses_.push_back(first[i]);
      if (i < other.size()) addresses_.push_back(other[i]);
    }
    if (addresses_.size() > kMostAddresses) addresses_.resize(kMostAddresses);
  }

  // The next address, while those before it still try.
  void ConnectNext() {
    if (tried_ == addresses_.size()) return;
    const auto socket = std::make_shared<Tcp::socket>(io_);
    sockets_.push_back(socket);
    socket->async_connect(addresses_[tried_++],
                          [self = shared_from_this(), socket](const error_code& failed) {
                            self->Connected(socket, failed);
                          });
    next_.expires_after(kNextAddressAfter);
    next_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (!cancelled && self->done_ && !self->stream_) self->ConnectNext();
    });
  }

  void Connected(const SocketPtr& socket, const error_code& failed) {
    if (!done_ || stream_) return;
    std::erase(sockets_, socket);
    if (failed) {
      if (tried_ < addresses_.size()) return ConnectNext();
      if (sockets_.empty()) End(StreamFailed("connect", peer_, failed));
      return;
    }
    next_.cancel();
    stream_ = std::make_unique<TlsStream>(std::move(*socket), tls_);
    for (const SocketPtr& other : sockets_) CloseSocket(*other);
    sockets_.clear();
    ShakeHands();
  }

  void ShakeHands() {
    error_code error;
    auto& socket = stream_->next_layer();
    (void)socket.set_option(Tcp::no_delay(true), error);
    (void)socket.set_option(TcpOption<TCP_USER_TIMEOUT>(
                                static_cast<int>(options_.connection.unacknowledged_limit.count())),
                            error);  // without them it works, too
    const std::string& name = options_.server_name.empty() ? options_.host : options_.server_name;
    ::SSL_set_mode(stream_->native_handle(), SSL_MODE_RELEASE_BUFFERS);
    ::SSL_set_alpn_protos(stream_->native_handle(), kProtocols, sizeof kProtocols - 1);
    error_code not_an_address;
    (void)asio::ip::make_address(name, not_an_address);
    // Addresses are not sent in this field (RFC 6066).
    if (not_an_address) ::SSL_set_tlsext_host_name(stream_->native_handle(), name.c_str());
    error.clear();
    (void)stream_->set_verify_callback(ssl::host_name_verification(name),
                                       error);  // returns `error`
    if (error) return End(StreamFailed("prepare TLS for", peer_, error));
    stream_->async_handshake(
        ssl::stream_base::client, [self = shared_from_this()](const error_code& failed) {
          if (!self->done_) return;
          if (failed) {
            return self->End(StreamFailed("TLS handshake with", self->peer_, failed));
          }
          self->Choose();
        });
  }

  void Choose() {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    ::SSL_get0_alpn_selected(stream_->native_handle(), &name, &size);
    if (std::string_view(reinterpret_cast<const char*>(name), size) == "h2") {
      return End(H2Connection::Open(io_, std::move(stream_), peer_, options_.connection));
    }
    KeepAlive(stream_->next_layer());
    End(std::shared_ptr<Connection>(std::make_shared<H1Connection>(std::move(stream_), peer_)));
  }

  void End(Result<std::shared_ptr<Connection>> result) {
    const Dialled done = std::exchange(done_, nullptr);
    CloseAll();
    done(std::move(result));
  }

  void CloseAll() {
    limit_.cancel();
    next_.cancel();
    resolver_.cancel();
    for (const SocketPtr& socket : sockets_) CloseSocket(*socket);
    if (stream_) CloseSocket(stream_->next_layer());
  }

  static void CloseSocket(Tcp::socket& socket) {
    error_code ignored;
    (void)socket.close(ignored);
  }

  asio::io_context& io_;
  ssl::context tls_;
  const DialOptions options_;
  const std::string peer_;
  Dialled done_;  // empty once it was called, or nobody waits any more
  asio::steady_timer limit_, next_;
  Tcp::resolver resolver_;
  std::vector<Tcp::endpoint> addresses_;
  size_t tried_ = 0;
  std::vector<SocketPtr> sockets_;  // that try
  TlsStreamPtr stream_;             // on the one that was first
};

class OwnedDialler : public Dialling {
 public:
  explicit OwnedDialler(std::shared_ptr<Dialler> dialler) : dialler_(std::move(dialler)) {}
  ~OwnedDialler() override { dialler_->GiveUp(); }

 private:
  const std::shared_ptr<Dialler> dialler_;  // its operations have it, too
};

}  // namespace

std::unique_ptr<Dialling> Dial(asio::io_context& io, ssl::context tls, DialOptions options,
                               Dialled done) {
  auto dialler = std::make_shared<Dialler>(io, std::move(tls), std::move(options), std::move(done));
  dialler->Begin();
  return std::make_unique<OwnedDialler>(std::move(dialler));
}

}  // namespace holdfast::runtime::http
