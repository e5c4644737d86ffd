// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>

#include "agent/cluster/connection_internal.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr uint64_t kLargestAnswer = 1 << 20;
constexpr uint32_t kLargestHeader = 64 << 10;

http::verb VerbOf(ApiMethod method) {
  switch (method) {
    case ApiMethod::kPost:
      return http::verb::post;
    case ApiMethod::kPut:
      return http::verb::put;
    case ApiMethod::kGet:
      break;
  }
  return http::verb::get;
}

std::string HostHeader(const KubeConfig& config) {
  const bool v6 = config.host.find(':') != std::string::npos;
  return StrCat(v6 ? "[" : "", config.host, v6 ? "]" : "", ":", config.port);
}

}  // namespace

Connection::Connection(asio::io_context& io, asio::ssl::context context,
                       std::shared_ptr<const KubeConfig> config)
    : config_(std::move(config)),
      context_(std::move(context)),
      resolver_(io),
      stream_(io, context_) {}

Error Connection::Failed(const char* what, const error_code& error) {
  usable_ = false;
  return Unavailable(StrCat(what, " ", config_->server, ": ", error.message()));
}

void Connection::Open(Opened done) {
  error_code error;
  (void)asio::ip::make_address(config_->tls_server_name, error);  // only whether it is one
  const bool is_name = static_cast<bool>(error);
  if (is_name) {  // addresses are not sent in this field (RFC 6066)
    ::SSL_set_tlsext_host_name(stream_.native_handle(), config_->tls_server_name.c_str());
  }
  error.clear();
  (void)stream_.set_verify_callback(asio::ssl::host_name_verification(config_->tls_server_name),
                                    error);  // returns `error`
  if (error) return done(Failed("prepare TLS for", error));
  Resolve(std::move(done));
}

// An address is not looked up: that would take a thread.
void Connection::Resolve(Opened done) {
  error_code error;
  const auto address = asio::ip::make_address(config_->host, error);
  if (!error) {
    const Tcp::endpoint endpoint(address, config_->port);
    return Connect(Tcp::resolver::results_type::create(endpoint, config_->host, ""),
                   std::move(done));
  }
  resolver_.async_resolve(config_->host, StrCat(config_->port),
                          [self = shared_from_this(), done = std::move(done)](
                              const error_code& failed, const Tcp::resolver::results_type& found) {
                            if (failed) return done(self->Failed("resolve", failed));
                            self->Connect(found, done);
                          });
}

void Connection::Connect(const Tcp::resolver::results_type& addresses, Opened done) {
  asio::async_connect(stream_.lowest_layer(), addresses,
                      [self = shared_from_this(), done = std::move(done)](const error_code& failed,
                                                                          const Tcp::endpoint&) {
                        if (failed) return done(self->Failed("connect", failed));
                        error_code ignored;
                        (void)self->stream_.lowest_layer().set_option(Tcp::no_delay(true), ignored);
                        self->ShakeHands(done);
                      });
}

void Connection::ShakeHands(Opened done) {
  stream_.async_handshake(
      asio::ssl::stream_base::client,
      [self = shared_from_this(), done = std::move(done)](const error_code& failed) {
        if (failed) return done(self->Failed("TLS handshake", failed));
        self->usable_ = true;
        done({});
      });
}

void Connection::Send(const ApiRequest& request, const std::string& token, ApiClient::Done done) {
  request_ = {VerbOf(request.method), config_->path + request.path, 11};
  request_.set(http::field::host, HostHeader(*config_));
  request_.set(http::field::user_agent, "holdfastd");
  request_.set(http::field::accept, "application/json");
  if (!token.empty()) request_.set(http::field::authorization, "Bearer " + token);
  if (!request.body.empty()) {
    request_.set(http::field::content_type, "application/json");
    request_.body() = request.body;
  }
  request_.prepare_payload();
  http::async_write(
      stream_, request_,
      [self = shared_from_this(), done = std::move(done)](const error_code& failed, size_t) {
        if (failed) return done(self->Failed("write to", failed));
        self->ReadHeader(done);
      });
}

// The header by itself: Boost 1.74 forgets that a body is too long when it comes with the header.
void Connection::ReadHeader(ApiClient::Done done) {
  parser_.emplace();
  parser_->body_limit(kLargestAnswer);
  parser_->header_limit(kLargestHeader);
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this(), done = std::move(done)](const error_code& failed, size_t) {
        if (failed) return done(self->Failed("read from", failed));
        self->ReadBody(done);
      });
}

void Connection::ReadBody(ApiClient::Done done) {
  http::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this(), done = std::move(done)](const error_code& failed, size_t) {
        if (failed) return done(self->Failed("read from", failed));
        auto& answer = self->parser_->get();
        self->usable_ = answer.keep_alive();
        done(ApiAnswer{static_cast<int>(answer.result_int()), std::move(answer.body())});
      });
}

void Connection::Close() {
  usable_ = false;
  error_code ignored;
  resolver_.cancel();
  (void)stream_.lowest_layer().close(ignored);
}

}  // namespace holdfast::agent
