// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/spdy_connection.h"

namespace holdfast::agent::streams {
namespace {

constexpr size_t kMaxReplies = 4096;
// For a client to take what was said last.
constexpr std::chrono::seconds kEndLimit{10};

}  // namespace

SpdyConnection::SpdyConnection(std::shared_ptr<ByteCarrier> carrier, SpdyOwner& owner)
    : carrier_(std::move(carrier)), owner_(&owner) {}

void SpdyConnection::Start(const boost::asio::any_io_executor& executor,
                           std::chrono::milliseconds idle_limit) {
  end_limit_ = std::make_unique<boost::asio::steady_timer>(executor);
  watch_ = LineWatch::Start(executor, idle_limit, [self = weak_from_this()] {
    if (const auto connection = self.lock()) connection->Lose();
  });
  ReadNext();
}

// ---- in --------------------------------------------------------------------------------------

void SpdyConnection::ReadNext() {
  if (reading_ || owner_ == nullptr) return;
  if (paused_) return watch_->NotReading(carrier_->socket());
  reading_ = true;
  watch_->Reading();
  carrier_->Read([self = shared_from_this()](bool ok, std::string_view bytes) {
    self->reading_ = false;
    if (self->owner_ == nullptr) return;
    if (!ok) return self->Lose();
    self->Received(bytes);
  });
}

void SpdyConnection::Received(std::string_view bytes) {
  watch_->Moved();
  if (!reader_.Read(bytes, *this)) return Lose();
  ReadNext();
}

void SpdyConnection::OnOpen(uint32_t stream, SpdyHeaders headers, bool last) {
  if (owner_ == nullptr) return;
  last_opened_ = stream;
  if (const auto refused = owner_->Opened(stream, headers)) {
    return QueueReply(SpdyWriter::Reset(stream, *refused));
  }
  auto reply = writer_.Reply(stream);
  if (!reply) return Lose();
  QueueReply(std::move(*reply));
  if (last && owner_ != nullptr) owner_->Received(stream, {}, true);
}

void SpdyConnection::OnData(uint32_t stream, std::string_view bytes, bool last) {
  if (owner_ != nullptr) owner_->Received(stream, bytes, last);
}

void SpdyConnection::OnReset(uint32_t stream) {
  if (owner_ != nullptr) owner_->Reset(stream);
}

void SpdyConnection::OnPing(uint32_t id) {
  if (id % 2 == 1) QueueReply(SpdyWriter::Ping(id));  // the client's; ours would be even
}

void SpdyConnection::Pause() { paused_ = true; }

void SpdyConnection::Resume() {
  paused_ = false;
  ReadNext();
}

// ---- out -------------------------------------------------------------------------------------

void SpdyConnection::Send(uint32_t stream, std::string_view bytes, bool last,
                          std::function<void()> sent) {
  Queue(SpdyWriter::Data(stream, bytes, last), std::move(sent));
}

void SpdyConnection::SendReset(uint32_t stream, SpdyReset why) {
  Queue(SpdyWriter::Reset(stream, why), nullptr);
}

// What a client can make us say without reading any of it.
void SpdyConnection::QueueReply(std::string bytes) {
  if (++replies_ > kMaxReplies) return Lose();
  Queue(std::move(bytes), [this] { --replies_; });
}

void SpdyConnection::Queue(std::string bytes, std::function<void()> sent) {
  if (owner_ == nullptr) return;
  waiting_.push_back({std::move(bytes), std::move(sent)});
  if (waiting_.size() == 1) WriteNext();
}

void SpdyConnection::WriteNext() {
  carrier_->Write(std::move(waiting_.front().bytes), [self = shared_from_this()](bool ok) {
    if (self->owner_ == nullptr) return;
    if (!ok) return self->Lose();
    self->watch_->Moved();
    const auto sent = std::move(self->waiting_.front().sent);
    self->waiting_.pop_front();
    if (!self->waiting_.empty()) self->WriteNext();
    if (sent) sent();
  });
}

// ---- end -------------------------------------------------------------------------------------

void SpdyConnection::End(std::function<void()> ended) {
  if (owner_ == nullptr || std::exchange(ending_, true)) return;
  end_limit_->expires_after(kEndLimit);
  end_limit_->async_wait([self = shared_from_this()](const auto& error) {
    if (!error) self->Lose();
  });
  Queue(SpdyWriter::GoAway(last_opened_), [this, ended = std::move(ended)] {
    owner_ = nullptr;
    watch_->Stop();
    end_limit_->cancel();
    carrier_->End();
    ended();
  });
}

void SpdyConnection::Drop() {
  owner_ = nullptr;
  if (watch_) watch_->Stop();
  if (end_limit_) end_limit_->cancel();
  carrier_->Drop();
}

void SpdyConnection::Lose() {
  if (SpdyOwner* owner = std::exchange(owner_, nullptr)) {
    Drop();
    owner->Lost();
  }
}

}  // namespace holdfast::agent::streams
