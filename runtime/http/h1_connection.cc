// SPDX-License-Identifier: Apache-2.0
#include "runtime/http/h1_connection_internal.h"

#include <sys/socket.h>

#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"

namespace holdfast::runtime::http {
namespace {

namespace beast_http = boost::beast::http;
using boost::system::error_code;

// Its type has changed from one Boost to the next.
std::string ToString(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

H1Connection::H1Connection(TlsStreamPtr stream, std::string peer)
    : stream_(std::move(stream)), peer_(std::move(peer)), buffer_(kHeaderLimit + (16 << 10)) {}

Result<StreamId> H1Connection::Start(Request request, std::shared_ptr<ResponseHandler> handler) {
  if (room() == 0) return Unavailable(StrCat(peer_, ": the connection takes no request now"));
  handler_ = std::move(handler);
  ++last_;
  body_limit_ = request.body_limit;
  received_ = unconsumed_ = 0;
  header_bytes_ = 0;
  paused_ = false;
  request_ = {};
  request_.version(11);
  request_.method_string(request.method);
  request_.target(request.path);
  request_.set(beast_http::field::host, request.authority);
  for (const auto& [name, value] : request.headers) request_.insert(name, value);
  request_.body() = std::move(request.body);
  request_.prepare_payload();
  Write(last_);
  return last_;
}

// Between two answers a server has nothing to say but that it ends the connection. (Before the first it also sends
// the keys for a resumed session.)
bool H1Connection::IsStale() const {
  char byte = 0;
  return last_ > 0 &&
         ::recv(stream_->lowest_layer().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

void H1Connection::Consume(StreamId stream, size_t bytes) {
  if (stream != last_ || handler_ == nullptr) return;
  unconsumed_ -= bytes;
  if (!paused_ || unconsumed_ >= kStreamWindow) return;
  paused_ = false;
  ReadBody(stream);
}

// What is under way cannot be told from the next answer, so the connection goes.
void H1Connection::Cancel(StreamId stream) {
  if (stream != last_ || handler_ == nullptr) return;
  handler_ = nullptr;
  Fail(Unavailable("cancelled"));
}

void H1Connection::Drain() {
  draining_ = true;
  if (!handler_ && !closed_) Fail(Unavailable("drained"));
}

void H1Connection::Close(const Error& why) {
  if (!closed_) Fail(why);
}

void H1Connection::Write(StreamId stream) {
  beast_http::async_write(*stream_, request_,
                          [self = shared_from_this(), stream](const error_code& failed, size_t) {
                            if (self->closed_) return;
                            if (failed) {
                              return self->Fail(StreamFailed("write to", self->peer_, failed));
                            }
                            self->ReadHead(stream);
                          });
}

void H1Connection::ReadHead(StreamId stream) {
  parser_.emplace();
  parser_->body_limit(
      boost::none);  // counted here: 1.74 forgets it when the body comes with the header
  parser_->header_limit(kHeaderLimit);
  beast_http::async_read_header(
      *stream_, buffer_, *parser_,
      [self = shared_from_this(), stream](const error_code& failed, size_t read) {
        if (self->closed_) return;
        self->header_bytes_ += read;
        if (failed == beast_http::error::header_limit ||
            failed == beast_http::error::buffer_overflow || self->header_bytes_ > kHeaderLimit) {
          return self->Fail(
              Error(Code::kResourceExhausted, StrCat(self->peer_, ": the answer has more than ",
                                                     kHeaderLimit, " bytes of headers")));
        }
        if (failed) return self->Fail(StreamFailed("read from", self->peer_, failed));
        self->TakeHead(stream);
      });
}

void H1Connection::TakeHead(StreamId stream) {
  const auto& answer = parser_->get();
  const auto status = static_cast<int>(answer.result_int());
  if (status < 100) return Fail(Unavailable(StrCat(peer_, ": the answer's status is ", status)));
  if (status < 200) return ReadHead(stream);
  ResponseHead head;
  head.status = status;
  for (const auto& field : answer) {
    head.headers.emplace_back(ToLower(ToString(field.name_string())), ToString(field.value()));
  }
  const auto handler = handler_;  // it may cancel itself
  handler->OnHead(std::move(head));
  if (!closed_) ReadBody(stream);
}

void H1Connection::ReadBody(StreamId stream) {
  if (parser_->is_done()) return Complete();
  if (unconsumed_ >= kStreamWindow) {
    paused_ = true;
    return;
  }
  parser_->get().body().data = body_.data();
  parser_->get().body().size = body_.size();
  beast_http::async_read_some(
      *stream_, buffer_, *parser_,
      [self = shared_from_this(), stream](const error_code& failed, size_t) {
        if (!self->closed_) self->TakeBody(stream, failed);
      });
}

void H1Connection::TakeBody(StreamId stream, const error_code& failed) {
  const size_t count = body_.size() - parser_->get().body().size;
  received_ += count;
  if (received_ > body_limit_) {
    return Fail(Error(Code::kResourceExhausted,
                      StrCat(peer_, ": the answer's body has more than ", body_limit_, " bytes")));
  }
  if (count > 0) {
    unconsumed_ += count;
    const auto handler = handler_;  // it may cancel itself
    handler->OnBody({body_.data(), count});
    if (closed_) return;
  }
  if (failed && failed != beast_http::error::need_buffer) {
    return Fail(StreamFailed("read from", peer_, failed));
  }
  ReadBody(stream);
}

void H1Connection::Complete() {
  const bool keep = parser_->get().keep_alive() && !draining_;
  const auto handler = std::exchange(handler_, nullptr);
  if (!keep) Fail(Unavailable("the server closes the connection"));
  handler->OnEnd({});
}

void H1Connection::Fail(const Error& why) {
  closed_ = true;
  error_code ignored;
  (void)stream_->lowest_layer().close(ignored);
  const auto handler = std::exchange(handler_, nullptr);
  if (handler != nullptr) handler->OnEnd({StreamEnd::How::kFailed, why});
}

}  // namespace holdfast::runtime::http
