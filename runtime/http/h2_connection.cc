// SPDX-License-Identifier: Apache-2.0
#include "runtime/http/h2_connection_internal.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

namespace holdfast::runtime::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kWriteAtOnce = 64 << 10;

}  // namespace

H2Connection::H2Connection(asio::io_context& io, TlsStreamPtr stream, std::string peer,
                           ConnectionOptions options, std::unique_ptr<H2Session> session)
    : io_(io),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      options_(options),
      session_(std::move(session)),
      health_(io),
      last_read_(Clock::now()) {}

Result<std::shared_ptr<Connection>> H2Connection::Open(asio::io_context& io, TlsStreamPtr stream,
                                                       std::string peer,
                                                       ConnectionOptions options) {
  ASSIGN_OR_RETURN(auto session, H2Session::Make());
  const std::shared_ptr<H2Connection> made(
      new H2Connection(io, std::move(stream), std::move(peer), options, std::move(session)));
  made->Read();
  made->TurnSoon();
  return std::shared_ptr<Connection>(made);
}

size_t H2Connection::room() const {
  if (!usable()) return 0;
  const size_t most = std::min(options_.most_streams, session_->peer_limit());
  return most - std::min(most, running_.size());
}

Result<StreamId> H2Connection::Start(Request request, std::shared_ptr<ResponseHandler> handler) {
  if (!usable()) return Unavailable(StrCat(peer_, ": the connection takes no more requests"));
  auto stream = WithContext(session_->Submit(std::move(request)), peer_);
  if (!stream) {  // its numbers are used up, or memory is
    draining_ = true;
    return stream;
  }
  running_[*stream].handler = std::move(handler);
  TurnSoon();
  if (!health_watched_) WatchHealth();
  return stream;
}

void H2Connection::Consume(StreamId stream, size_t bytes) {
  const auto found = running_.find(stream);
  if (found == running_.end() || bytes == 0) return;
  found->second.unconsumed -= bytes;
  session_->Consume(stream, bytes);
  TurnSoon();
}

// What nobody will consume any more counts for the connection's window.
std::optional<H2Connection::Running> H2Connection::Take(StreamId stream) {
  const auto found = running_.find(stream);
  if (found == running_.end()) return std::nullopt;
  Running taken = std::move(found->second);
  running_.erase(found);
  if (taken.unconsumed > 0) session_->Consume(stream, taken.unconsumed);
  return taken;
}

void H2Connection::Cancel(StreamId stream) {
  if (closed_ || !Take(stream)) return;
  session_->Reset(stream);
  TurnSoon();
}

void H2Connection::Drain() {
  draining_ = true;
  TurnSoon();
}

void H2Connection::Close(const Error& why) {
  if (!closed_) Finish(why, false);
}

void H2Connection::Read() {
  stream_->async_read_some(
      asio::buffer(buffer_), [self = shared_from_this()](const error_code& failed, size_t count) {
        if (self->closed_) return;
        if (failed) return self->Finish(StreamFailed("read from", self->peer_, failed), true);
        self->last_read_ = Clock::now();
        self->pinged_.reset();
        self->read_ = count;
        self->Turn();
      });
}

void H2Connection::TurnSoon() {
  if (turn_posted_ || closed_) return;
  turn_posted_ = true;
  asio::post(io_, [self = shared_from_this()] {
    self->turn_posted_ = false;
    if (!self->closed_) self->Turn();
  });
}

void H2Connection::Turn() {
  // 1. What was read. After a violation of the protocol the output still tells the peer.
  if (read_ > 0) {
    const Result<void> received = session_->Receive({buffer_.data(), read_});
    Deliver();
    if (closed_) return;
    if (!received) return Finish(WithContext(received, peer_).error(), true);
    read_ = 0;
    Read();
  }
  // 2. What is to be written; streams that were given up end here.
  if (!writing_) Write();
  if (closed_) return;
  Deliver();
  if (closed_ || writing_) return;
  // 3. The end.
  if (session_->finished()) {
    return Finish(Unavailable(StrCat(peer_, ": the HTTP/2 session ended")), true);
  }
  if (draining_ && running_.empty()) Finish(Unavailable("drained"), false);
}

void H2Connection::Deliver() {
  for (H2Session::Event& event : session_->TakeEvents()) {
    DeliverOne(event);
    if (closed_) return;
  }
}

void H2Connection::DeliverOne(H2Session::Event& event) {
  const auto found = running_.find(event.stream);
  if (found == running_.end()) {  // cancelled in this turn
    session_->Consume(event.stream, event.bytes.size());
    return;
  }
  const std::shared_ptr<ResponseHandler> handler = found->second.handler;  // it may cancel itself
  switch (event.kind) {
    case H2Session::Event::Kind::kHead:
      return handler->OnHead(std::move(event.head));
    case H2Session::Event::Kind::kBody:
      found->second.unconsumed += event.bytes.size();
      return handler->OnBody(event.bytes);
    case H2Session::Event::Kind::kEnd:
      Take(event.stream);
      if (event.end.how != StreamEnd::How::kComplete) {
        event.end.error = std::move(event.end.error).Wrap(peer_);
      }
      return handler->OnEnd(std::move(event.end));
  }
}

void H2Connection::Write() {
  auto output = session_->TakeOutput(kWriteAtOnce);
  if (!output) return Finish(WithContext(std::move(output), peer_).error(), true);
  if (output->empty()) return;
  output_ = std::move(*output);
  writing_ = true;
  asio::async_write(*stream_, asio::buffer(output_),
                    [self = shared_from_this()](const error_code& failed, size_t) {
                      self->writing_ = false;
                      if (self->closed_) return;
                      if (failed) {
                        return self->Finish(StreamFailed("write to", self->peer_, failed), true);
                      }
                      self->Turn();
                    });
}

// Handlers may call everything here meanwhile; nothing new begins.
void H2Connection::Finish(const Error& why, bool by_peer) {
  closed_ = true;
  health_.cancel();
  error_code ignored;
  (void)stream_->lowest_layer().close(ignored);
  const bool went_away = by_peer && session_->went_away() && session_->in_order();
  StreamEnd end{went_away ? StreamEnd::How::kWentAway : StreamEnd::How::kFailed, why};
  while (!running_.empty()) {
    const auto handler = std::move(running_.begin()->second.handler);
    running_.erase(running_.begin());
    handler->OnEnd(end);
  }
}

// While something is under way: silence leads to a ping, and an unanswered ping to the end. Any byte is an answer.
void H2Connection::WatchHealth() {
  health_watched_ = !closed_ && !running_.empty();
  if (!health_watched_) return;
  const Time now = Clock::now();
  error_code ignored;
  if (pinged_ && now >= *pinged_ + options_.ping_limit) {
    // This thread may have been kept from reading.
    if (stream_->lowest_layer().available(ignored) == 0) {
      return Finish(Unavailable(StrCat(peer_, ": no answer to a ping within ",
                                       options_.ping_limit.count(), " ms")),
                    false);
    }
    pinged_ = now;
  }
  if (!pinged_ && now >= last_read_ + options_.ping_after) {
    pinged_ = now;
    session_->Ping();
    TurnSoon();
  }
  health_.expires_at(pinged_ ? *pinged_ + options_.ping_limit : last_read_ + options_.ping_after);
  health_.async_wait([self = shared_from_this()](const error_code& cancelled) {
    if (!cancelled) self->WatchHealth();
  });
}

}  // namespace holdfast::runtime::http
