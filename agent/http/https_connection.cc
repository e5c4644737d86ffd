// SPDX-License-Identifier: Apache-2.0
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/write.hpp>

#include "agent/http/http_date.h"
#include "agent/http/https_connection_internal.h"
#include "agent/openssl/openssl.h"
#include "holdfast/base/host_port.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kReadAtOnce = 4u << 10;
constexpr size_t kMostAhead = 16u << 10;  // of what a client sends while he is answered
constexpr std::chrono::seconds kFarewell{2};

std::string Der(X509* certificate) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(certificate, &bytes);
  std::string out(reinterpret_cast<const char*>(bytes), size > 0 ? static_cast<size_t>(size) : 0);
  OPENSSL_free(bytes);
  return out;
}

template <class Message>
void Fill(const HttpAnswer& answer, bool keep_alive, Message& message) {
  message.result(answer.status);
  message.set(http::field::date, HttpDate(std::time(nullptr)));
  if (!answer.content_type.empty()) message.set(http::field::content_type, answer.content_type);
  for (const auto& [name, value] : answer.headers) message.insert(name, value);
  message.keep_alive(keep_alive);
}

}  // namespace

// Keeps the connection; may be held and dropped anywhere.
class HttpsConnection::OneExchange final : public Exchange {
 public:
  OneExchange(std::shared_ptr<HttpsConnection> connection, HttpRequest request)
      : executor_(beast::get_lowest_layer(connection->stream_).get_executor()),
        connection_(std::move(connection)),
        request_(std::move(request)) {}
  ~OneExchange() override {
    if (!decided_) Answer({.status = 500, .body = "Internal Server Error"});
  }
  OneExchange(const OneExchange&) = delete;
  OneExchange& operator=(const OneExchange&) = delete;

  const HttpRequest& request() const override { return request_; }
  const std::vector<std::string>& certificates() const override {
    return connection_->certificates_;
  }
  const std::string& peer() const override { return connection_->peer_; }

  void Answer(HttpAnswer answer) override {
    if (decided_.exchange(true)) return;
    Post([connection = connection_, answer = std::move(answer)] {
      connection->WriteAnswer(answer);
    });
  }
  void Begin(HttpAnswer head, BodyEvents events) override {
    if (!decided_.exchange(true)) connection_->BeginBody(head, std::move(events));
  }
  void Write(std::string piece) override { connection_->WritePiece(std::move(piece)); }
  void End() override { connection_->EndBody(); }
  UpgradedConnection Release() override {
    decided_ = true;
    connection_->state_ = State::kClosed;
    beast::get_lowest_layer(connection_->stream_).expires_never();
    return {std::move(connection_->stream_), std::move(request_), std::move(connection_->buffer_)};
  }
  void Post(std::function<void()> work) override { asio::post(executor_, std::move(work)); }

 private:
  beast::tcp_stream::executor_type executor_;
  const std::shared_ptr<HttpsConnection> connection_;
  HttpRequest request_;
  std::atomic<bool> decided_ = false;
};

HttpsConnection::HttpsConnection(asio::ip::tcp::socket socket, asio::ssl::context& tls,
                                 const HttpsServerOptions& options)
    : options_(options),
      stream_(std::move(socket), tls),
      buffer_(options.limits.header_bytes + kMostAhead) {
  error_code error;
  const auto peer = beast::get_lowest_layer(stream_).socket().remote_endpoint(error);
  if (error) return;  // gone already
  address_ = peer.address().to_string();
  peer_ = JoinHostPort(address_, peer.port());
}

void HttpsConnection::ExpireAfter(std::chrono::milliseconds limit) {
  beast::get_lowest_layer(stream_).expires_after(limit);
}

void HttpsConnection::Run() {
  ExpireAfter(options_.limits.handshake);
  stream_.async_handshake(asio::ssl::stream_base::server,
                          [self = shared_from_this()](const error_code& error) {
                            if (self->state_ == State::kClosed) return;
                            if (error) return self->Close();
                            self->AfterHandshake();
                          });
}

void HttpsConnection::AfterHandshake() {
  KeepCertificates();
  WaitForRequest();
}

void HttpsConnection::KeepCertificates() {
  SSL* const ssl = stream_.native_handle();
  const openssl::Ptr<X509> leaf(SSL_get1_peer_certificate(ssl));
  if (!leaf) return;
  certificates_.push_back(Der(leaf.get()));
  const STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(ssl);
  for (int i = 0; i < sk_X509_num(chain); ++i)
    certificates_.push_back(Der(sk_X509_value(chain, i)));
}

// Two limits: long for a client that has nothing to ask, short from the first byte of a request on.
void HttpsConnection::WaitForRequest() {
  state_ = State::kRequest;
  if (buffer_.size() > 0) return ReadHead();
  ExpireAfter(options_.limits.idle);
  stream_.async_read_some(buffer_.prepare(kReadAtOnce),
                          [self = shared_from_this()](const error_code& error, size_t size) {
                            if (self->state_ == State::kClosed) return;
                            if (error) return self->Finish();
                            self->buffer_.commit(size);
                            self->ReadHead();
                          });
}

void HttpsConnection::ReadHead() {
  Limit(parser_.emplace(), options_.limits);
  ExpireAfter(options_.limits.request);
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](const error_code& error, size_t) {
                            if (self->state_ == State::kClosed) return;
                            if (error) return self->OnUnreadable(error);
                            self->ReadBody();
                          });
}

void HttpsConnection::ReadBody() {
  if (AnnouncesTooMuch(*parser_, options_.limits)) return OnUnreadable(http::error::body_limit);
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](const error_code& error, size_t) {
                     if (self->state_ == State::kClosed) return;
                     if (error) return self->OnUnreadable(error);
                     self->Handle();
                   });
}

void HttpsConnection::OnUnreadable(const error_code& error) {
  const auto refusal = RefusalOf(error);
  refusal ? Refuse(refusal->status, refusal->text) : Close();
}

// Nobody knows where the next request would begin.
void HttpsConnection::Refuse(unsigned status, const std::string& text) {
  keep_alive_ = only_head_ = false;
  version_ = 11;
  WriteAnswer({.status = status, .body = text});
}

void HttpsConnection::Handle() {
  HttpRequest request = parser_->release();
  parser_.reset();
  version_ = request.version();
  // Who asked for another protocol and did not get it may have put a tunnel of somebody else's behind this connection.
  keep_alive_ = request.keep_alive() && request.find(http::field::upgrade) == request.end();
  only_head_ = request.method() == http::verb::head;
  state_ = State::kAnswer;
  options_.handler(std::make_shared<OneExchange>(shared_from_this(), std::move(request)));
}

void HttpsConnection::WriteAnswer(const HttpAnswer& answer) {
  if (state_ == State::kClosed) return;
  state_ = State::kAnswer;
  response_.emplace();
  response_->version(version_);
  Fill(answer, keep_alive_, *response_);
  response_->content_length(answer.body.size());
  if (!only_head_) response_->body() = answer.body;
  ExpireAfter(options_.limits.write);
  http::async_write(stream_, *response_,
                    [self = shared_from_this()](const error_code& error, size_t) {
                      if (self->state_ == State::kClosed) return;
                      if (error) return self->Close();
                      self->AfterAnswer();
                    });
}

void HttpsConnection::AfterAnswer() {
  response_.reset();
  keep_alive_ ? WaitForRequest() : Finish();
}

// A client that leaves while he is sent nothing is only seen by reading; his next request is not waited for, then.
void HttpsConnection::BeginBody(const HttpAnswer& head, BodyEvents events) {
  if (state_ == State::kClosed) {
    if (events.gone) events.gone();
    return;
  }
  state_ = State::kBody;
  keep_alive_ = false;
  events_ = std::move(events);
  head_.emplace();
  head_->version(version_);
  Fill(head, false, *head_);
  if (version_ >= 11 && !only_head_) head_->chunked(true);
  WriteHead();
  WatchClient();
}

void HttpsConnection::WriteHead() {
  ExpireAfter(options_.limits.write);
  serializer_.emplace(*head_);
  http::async_write_header(
      stream_, *serializer_,
      [self = shared_from_this()](const error_code& error, size_t) { self->AfterPiece(error); });
}

void HttpsConnection::WritePiece(std::string piece) {
  if (state_ != State::kBody) return;
  if (only_head_) return EndBody();
  piece_ = std::move(piece);
  ExpireAfter(options_.limits.write);
  const auto written = [self = shared_from_this()](const error_code& error, size_t) {
    self->AfterPiece(error);
  };
  if (version_ < 11) return asio::async_write(stream_, asio::buffer(piece_), written);
  asio::async_write(stream_, http::make_chunk(asio::buffer(piece_)), written);
}

void HttpsConnection::AfterPiece(const error_code& error) {
  if (state_ != State::kBody) return;
  if (error) return Close();
  const auto passed = events_.passed;  // it may end the body
  if (passed) passed();
}

void HttpsConnection::EndBody() {
  if (state_ != State::kBody) return;
  state_ = State::kAnswer;
  events_ = {};
  if (version_ < 11 || only_head_) return Finish();
  ExpireAfter(options_.limits.write);
  asio::async_write(stream_, http::make_chunk_last(),
                    [self = shared_from_this()](const error_code& error, size_t) {
                      if (self->state_ == State::kClosed) return;
                      error ? self->Close() : self->Finish();
                    });
}

// Whoever sends that much before he was answered is no client of ours; nor could it be kept.
void HttpsConnection::WatchClient() {
  if (buffer_.size() > kMostAhead) return Close();
  watching_ = true;
  stream_.async_read_some(buffer_.prepare(kReadAtOnce),
                          [self = shared_from_this()](const error_code& error, size_t size) {
                            self->watching_ = false;
                            if (self->state_ == State::kClosed) return;
                            if (self->finishing_) return self->ShutDown();
                            if (error) return self->Close();
                            self->buffer_.commit(size);
                            self->WatchClient();
                          });
}

// In order, so that what was written arrives.
void HttpsConnection::Finish() {
  if (state_ == State::kClosed || finishing_) return;
  finishing_ = true;
  if (!watching_) return ShutDown();
  beast::get_lowest_layer(stream_).cancel();  // and its end goes on
}

void HttpsConnection::ShutDown() {
  state_ = State::kAnswer;
  ExpireAfter(kFarewell);
  stream_.async_shutdown([self = shared_from_this()](const error_code&) { self->Close(); });
}

void HttpsConnection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  beast::get_lowest_layer(stream_).close();
  const auto gone = std::exchange(events_, {}).gone;
  if (gone) gone();
}

}  // namespace holdfast::agent
