// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/streams/channel_connection.h"

#include <boost/asio/post.hpp>

#include "agent/api/kubelet/streams/wire/channel_messages.h"

namespace holdfast::agent::streams {

ChannelConnection::ChannelConnection(UpgradedConnection connection, ChannelProtocol protocol,
                                     std::chrono::milliseconds idle_limit)
    : executor_(connection.stream.get_executor()),
      protocol_(std::move(protocol)),
      idle_limit_(idle_limit),
      socket_(MakeWebSocket(std::move(connection))) {}

void ChannelConnection::Start() {
  self_ = shared_from_this();
  socket_->Accept(protocol_.name, [self = shared_from_this()](bool ok) {
    if (!ok || self->over_) return self->Drop();
    self->watch_ =
        LineWatch::Start(self->executor_, self->idle_limit_, [weak = self->weak_from_this()] {
          if (const auto gone = weak.lock()) gone->Drop();
        });
    self->Accepted();
    self->ReadNext();
  });
}

void ChannelConnection::Drop() {
  socket_->Drop();
  Over();
}

void ChannelConnection::ReadOn() {
  paused_ = false;
  ReadNext();
}

void ChannelConnection::ReadNext() {
  if (reading_ || over_) return;
  if (paused_) return watch_->NotReading(socket_->socket());
  reading_ = true;
  watch_->Reading();
  socket_->Read([self = shared_from_this()](bool ok, std::string_view bytes, bool last) {
    self->reading_ = false;
    if (self->over_) return;
    if (!ok) return self->Drop();
    self->watch_->Moved();
    if (!self->Received(bytes, last)) return self->Close(CloseCode::kProtocolError);
    self->ReadNext();
  });
}

void ChannelConnection::Queue(uint8_t channel, std::string_view bytes, std::function<void()> sent) {
  if (over_) return;
  waiting_.push_back({ChannelMessage(channel, bytes, protocol_.base64), std::move(sent)});
  if (waiting_.size() == 1) WriteNext();
}

void ChannelConnection::WriteNext() {
  socket_->Write(std::move(waiting_.front().message), protocol_.base64,
                 [self = shared_from_this()](bool ok) {
                   if (self->over_) return;
                   if (!ok) return self->Drop();
                   self->Written();
                 });
}

void ChannelConnection::Written() {
  watch_->Moved();
  const auto sent = std::move(waiting_.front().sent);
  waiting_.pop_front();
  if (!waiting_.empty()) WriteNext();
  if (sent) sent();
}

void ChannelConnection::Close(CloseCode code) {
  socket_->Close(code);
  Over();
}

void ChannelConnection::Over() {
  over_ = true;
  if (watch_) watch_->Stop();
  Ended();
  if (!self_) return;
  // Not from within one of its own calls.
  boost::asio::post(executor_, [self = std::exchange(self_, nullptr)] {});
}

}  // namespace holdfast::agent::streams
