// SPDX-License-Identifier: Apache-2.0
#include "agent/http/https_server.h"

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <map>
#include <thread>

#include "agent/http/https_connection_internal.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// A former agent that was killed just now still has its socket: so long nothing is said.
constexpr int kQuietTries = 10;
constexpr std::chrono::milliseconds kQuietRetry{50}, kListenRetry{2000};
// When accept(2) lacks something (descriptors, memory), it would lack it at once again.
constexpr std::chrono::milliseconds kAcceptPause{200};

bool IsLack(const error_code& error) {
  return error == asio::error::no_descriptors || error == asio::error::no_memory ||
         error == asio::error::no_buffer_space ||
         error == boost::system::errc::too_many_files_open_in_system;
}

}  // namespace

// `options_` and what runs belong to the thread.
class HttpsServer::Impl {
 public:
  Impl(HttpsServerOptions options, const ServingCertificate& certificate)
      : options_(std::move(options)), certificate_(certificate) {}
  ~Impl() { Stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> Start() {
    error_code error;
    address_ = asio::ip::make_address(options_.address, error);
    if (error) return InvalidArgument(StrCat("address: \"", options_.address, "\" is no address"));
    Listen();
    ASSIGN_OR_RETURN(thread_, sys::StartThread("https-server", [this] { io_.run(); }));
    return {};
  }

  void Stop() {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      Close();
      io_.stop();
    });
    thread_.join();
  }

  uint16_t port() const { return port_; }

 private:
  void Close() {
    error_code ignored;
    acceptor_.close(ignored);
    for (const auto& weak : open_) {
      if (const auto connection = weak.lock()) connection->Close();
    }
  }

  void Listen() {
    const error_code error = TryToListen();
    if (!error) return Accept();
    if (++tries_ == kQuietTries && options_.log) {
      options_.log(StrCat("listen at ", options_.address, " port ", options_.port, ": ",
                          error.message(), ", trying again"));
    }
    pause_.expires_after(tries_ < kQuietTries ? kQuietRetry : kListenRetry);
    pause_.async_wait([this](const error_code& stopped) {
      if (!stopped) Listen();
    });
  }

  error_code TryToListen() {
    if (!address_.is_unspecified()) return ListenAt({address_, options_.port}, true);
    const error_code both = ListenAt({asio::ip::address_v6::any(), options_.port}, false);
    if (!both) return both;  // a node without IPv6
    return ListenAt({asio::ip::address_v4::any(), options_.port}, false);
  }

  error_code ListenAt(const tcp::endpoint& endpoint, bool v6_only) {
    error_code error;
    acceptor_.close(error);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error && endpoint.address().is_v6()) {
      acceptor_.set_option(asio::ip::v6_only(v6_only), error);
    }
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    return error;
  }

  void Accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error) Serve(std::move(socket));
      if (!IsLack(error)) return Accept();
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](const error_code& stopped) {
        if (!stopped) Accept();
      });
    });
  }

  void Serve(tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    std::erase_if(open_, [](const auto& weak) {
      const auto connection = weak.lock();
      return !connection || !connection->IsOpen();
    });
    if (open_.size() >= options_.limits.connections && !MakeRoom()) return;  // it is closed
    const auto tls = certificate_.Context();
    auto connection = std::make_shared<HttpsConnection>(std::move(socket), *tls, options_);
    open_.push_back(connection);
    connection->Run();
  }

  // The longest waiting one of the address that has the most: a flood takes its own places. False: all are answered.
  bool MakeRoom() {
    std::map<std::string, size_t> counts;
    for (const auto& weak : open_) ++counts[weak.lock()->address()];
    std::shared_ptr<HttpsConnection> chosen;
    for (const auto& weak : open_) {
      const auto one = weak.lock();
      if (!one->IsWaiting()) continue;
      if (!chosen || counts[one->address()] > counts[chosen->address()]) chosen = one;
    }
    if (chosen) chosen->Close();
    return chosen != nullptr;
  }

  const HttpsServerOptions options_;
  const ServingCertificate& certificate_;
  asio::ip::address address_;
  std::atomic<uint16_t> port_ = 0;
  int tries_ = 0;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_};
  std::list<std::weak_ptr<HttpsConnection>> open_;  // the longest there first
  std::thread thread_;
};

HttpsServer::HttpsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpsServer::~HttpsServer() = default;

Result<std::unique_ptr<HttpsServer>> HttpsServer::Start(HttpsServerOptions options,
                                                        const ServingCertificate& certificate) {
  auto impl = std::make_unique<Impl>(std::move(options), certificate);
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<HttpsServer>(new HttpsServer(std::move(impl)));
}

void HttpsServer::Stop() { impl_->Stop(); }
uint16_t HttpsServer::port() const { return impl_->port(); }

}  // namespace holdfast::agent
