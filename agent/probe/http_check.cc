// SPDX-License-Identifier: Apache-2.0
// A check by one GET, HTTP/1.1 over TCP or TLS. Redirects to the same host are followed, others end
// it. Certificates are not verified, as by a kubelet: a pod's own names nobody the node could trust.
// Source: Kubernetes' probe/http/http.go, Go's net/http/client.go.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "agent/probe/running_check_internal.h"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <limits>

#include "agent/probe/redirect.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace ssl = boost::asio::ssl;
using boost::system::error_code;
using How = CheckOutcome::How;

constexpr int kMostRedirects = 10;
constexpr uint32_t kMostHeaders = 64 * 1024;

ssl::context TlsContext() {
  ssl::context context(ssl::context::tls_client);
  error_code ignored;
  (void)context.set_verify_mode(ssl::verify_none, ignored);  // as a kubelet; it cannot fail
  // Whatever key a pod has: nothing is said to it that would be worth reading.
  ::SSL_CTX_set_security_level(context.native_handle(), 0);
  return context;
}

// A peer that answers a TLS handshake in plain text.
bool IsPlainPeer(const error_code& error) {
  if (error.category() != asio::error::get_ssl_category()) return false;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST;
}

bool IsAddress(const std::string& host) {
  error_code bad;
  (void)asio::ip::make_address(host, bad);
  return !bad;
}

class HttpChecking : public CheckBase {
 public:
  HttpChecking(asio::io_context& io, HttpCheck check)
      : CheckBase(io), check_(std::move(check)), target_{check_}, dialler_(io) {}

 private:
  using Stream = ssl::stream<asio::ip::tcp::socket&>;
  using Parser = http::response_parser<http::buffer_body>;

  std::shared_ptr<HttpChecking> Self() {
    return std::static_pointer_cast<HttpChecking>(shared_from_this());
  }

  std::string Url() const { return UrlOf(target_); }
  // As Go's client words it.
  std::string Context() const { return StrCat("Get \"", Url(), "\": "); }
  void FailGet(const std::string& why) { Fail(Context() + why); }
  CheckOutcome OnLimit() override {
    return {How::kFailure, StrCat("Get \"", Url(), "\": context deadline exceeded ",
                                  "(Client.Timeout exceeded while awaiting headers)")};
  }

  void Go() override {
    for (const auto& [name, value] : check_.headers) {
      if (!IsHeaderValue(value)) {
        return FailGet(StrCat("net/http: invalid header field value for \"", name, "\""));
      }
    }
    if (!IsHeaderValue(check_.authority)) return FailGet("http: invalid Host header");
    dialler_.Dial(target_.host, target_.port, [self = Self()](const Result<void>& connected) {
      if (self->ended()) return;
      if (!connected) return self->FailDial(connected.error(), self->Context());
      self->target_.tls ? self->Handshake() : self->Send();
    });
  }

  void Handshake() {
    static ssl::context context = TlsContext();
    tls_ = std::make_unique<Stream>(dialler_.socket(), context);
    if (!IsAddress(target_.host)) {
      (void)SSL_set_tlsext_host_name(tls_->native_handle(), target_.host.c_str());
    }
    tls_->async_handshake(Stream::client, [self = Self()](const error_code& error) {
      if (self->ended()) return;
      if (!error) return self->Send();
      if (!IsPlainPeer(error)) return self->FailGet(StrCat("tls: ", error.message()));
      self->End(
          {How::kFailure,
           StrCat("Get \"", self->Url(), "\": http: server gave HTTP response to HTTPS client"),
           true});
    });
  }

  // Whichever stream it is.
  template <class Use>
  void WithStream(Use&& use) {
    if (tls_) return use(*tls_);
    use(dialler_.socket());
  }

  void Send() {
    request_ = {};
    request_.method(http::verb::get);
    request_.target(target_.path);
    request_.version(11);
    request_.set(http::field::host, AuthorityOf(target_));
    for (const auto& [name, value] : check_.headers) request_.insert(name, value);
    request_.set(http::field::connection, "close");
    WithStream([&](auto& stream) {
      http::async_write(stream, request_, [self = Self()](const error_code& error, size_t) {
        if (self->ended()) return;
        if (error) return self->FailGet(StrCat("write: ", SocketError(error)));
        self->ReadHead();
      });
    });
  }

  void ReadHead() {
    parser_.emplace();
    parser_->header_limit(kMostHeaders);
    parser_->body_limit(std::numeric_limits<uint64_t>::max());
    WithStream([&](auto& stream) {
      http::async_read_header(
          stream, buffer_, *parser_, [self = Self()](const error_code& e, size_t read) {
            if (self->ended()) return;
            self->header_bytes_ += read;
            if (self->header_bytes_ > kMostHeaders) {
              return self->FailGet(StrCat("net/http: server response headers exceeded ",
                                          kMostHeaders, " bytes; aborted"));
            }
            if (e == http::error::end_of_stream) return self->FailGet("EOF");
            if (e.category() == make_error_code(http::error::bad_version).category()) {
              return self->FailGet(
                  "net/http: HTTP/1.x transport connection broken: malformed HTTP response");
            }
            if (e) return self->FailGet(StrCat("read: ", SocketError(e)));
            self->OnHead();
          });
    });
  }

  void OnHead() {
    const auto status = static_cast<int>(parser_->get().result_int());
    // As early hints, before the answer.
    if (status >= 100 && status < 200 && status != 101) return ReadHead();
    if (IsRedirect(status)) {
      const std::string location(parser_->get()[http::field::location]);
      auto next = FollowRedirect(check_, target_, location);
      if (next && redirects_ + 1 >= kMostRedirects) return FailGet("stopped after 10 redirects");
      if (next) return Follow(std::move(*next));
    }
    ReadBody();
  }

  void Follow(HttpCheck next) {
    ++redirects_;
    target_ = std::move(next);
    CloseConnection();
    buffer_.clear();
    header_bytes_ = 0;
    Go();
  }

  void ReadBody() {
    if (parser_->is_done() || body_.size() >= kCheckOutput) return OnBody();
    parser_->get().body().data = piece_.data();
    parser_->get().body().size = std::min(piece_.size(), kCheckOutput - body_.size());
    const size_t room = parser_->get().body().size;
    WithStream([&](auto& stream) {
      http::async_read_some(
          stream, buffer_, *parser_, [self = Self(), room](const error_code& error, size_t) {
            if (self->ended()) return;
            self->body_.append(self->piece_.data(), room - self->parser_->get().body().size);
            const bool more = !error || error == http::error::need_buffer;
            if (!more && error != http::error::partial_message &&
                error != ssl::error::stream_truncated) {
              return self->FailGet(StrCat("read: ", SocketError(error)));
            }
            more ? self->ReadBody() : self->OnBody();
          });
    });
  }

  void OnBody() {
    const auto status = static_cast<int>(parser_->get().result_int());
    if (check_.any_status || (status >= 200 && status < 300)) return End({How::kSuccess, body_});
    if (status >= 300 && status < 400) {
      return End({How::kWarning, StrCat("Probe terminated redirects, Response body: ", body_)});
    }
    Fail(StrCat("HTTP probe failed with statuscode: ", status));
  }

  void CloseConnection() {
    dialler_.Close();
    // Its operations have ended, or end now and find nothing to do; the stream goes after them.
    if (tls_) asio::post(io_, [self = Self(), old = std::shared_ptr<Stream>(std::move(tls_))] {});
  }
  void Close() override { CloseConnection(); }

  const HttpCheck check_;
  HttpCheck target_;  // where redirects have led
  int redirects_ = 0;
  Dialler dialler_;
  std::unique_ptr<Stream> tls_;
  http::request<http::empty_body> request_;
  boost::beast::flat_buffer buffer_{kMostHeaders + kCheckOutput};
  size_t header_bytes_ = 0;  // of the answer and of those of 1xx before it
  std::optional<Parser> parser_;
  std::array<char, 4096> piece_{};
  std::string body_;
};

}  // namespace

std::shared_ptr<CheckBase> MakeHttpCheck(asio::io_context& io, HttpCheck check) {
  return std::make_shared<HttpChecking>(io, std::move(check));
}

}  // namespace holdfast::agent
