// SPDX-License-Identifier: Apache-2.0
// SpdyConnection: the streams of one SPDY/3.1 connection over a carrier, as its server. It answers pings and
// opened streams, hands on what comes and writes frames one after the other. On the carrier's executor.
//
// Bounded: reading pauses while the owner says so; frames of the owner wait only as many as it has under way;
// replies to pings and streams that a client does not fetch end the connection.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/api/kubelet/streams/byte_carrier.h"
#include "agent/api/kubelet/streams/line_watch.h"
#include "agent/api/kubelet/streams/wire/spdy_frames.h"

namespace holdfast::agent::streams {

// Whose streams these are. None of it is called after Drop() or Lost().
class SpdyOwner {
 public:
  virtual ~SpdyOwner() = default;
  // Absent: the stream is taken.
  virtual std::optional<SpdyReset> Opened(uint32_t stream, const SpdyHeaders& headers) = 0;
  virtual void Received(uint32_t stream, std::string_view bytes, bool last) = 0;
  virtual void Reset(uint32_t stream) = 0;
  // The client has gone, broke the protocol or was idle for too long; all is closed.
  virtual void Lost() = 0;
};

class SpdyConnection final : public SpdyEvents,
                             public std::enable_shared_from_this<SpdyConnection> {
 public:
  // `owner` is borrowed until Drop() or Lost().
  SpdyConnection(std::shared_ptr<ByteCarrier> carrier, SpdyOwner& owner);
  void Start(const boost::asio::any_io_executor& executor, std::chrono::milliseconds idle_limit);

  // `sent` (may be null) is called when the carrier has it; never, once the connection is closed.
  void Send(uint32_t stream, std::string_view bytes, bool last, std::function<void()> sent);
  void SendReset(uint32_t stream, SpdyReset why);
  void Pause();
  void Resume();
  // GOAWAY behind all that waits, then the end.
  void End(std::function<void()> ended);  // not called when it is lost first
  void Drop();

  void OnOpen(uint32_t stream, SpdyHeaders headers, bool last) override;
  void OnData(uint32_t stream, std::string_view bytes, bool last) override;
  void OnReset(uint32_t stream) override;
  void OnPing(uint32_t id) override;
  void OnGoAway() override {}  // the client closes next

 private:
  struct Frame {
    std::string bytes;
    std::function<void()> sent;
  };
  void Queue(std::string bytes, std::function<void()> sent);
  void QueueReply(std::string bytes);
  void WriteNext();
  void ReadNext();
  void Received(std::string_view bytes);
  void Lose();

  const std::shared_ptr<ByteCarrier> carrier_;
  SpdyOwner* owner_;  // null once closed
  std::shared_ptr<LineWatch> watch_;
  std::unique_ptr<boost::asio::steady_timer> end_limit_;
  SpdyReader reader_;
  SpdyWriter writer_;
  std::deque<Frame> waiting_;  // the first is being written
  size_t replies_ = 0;         // of waiting_
  uint32_t last_opened_ = 0;
  bool reading_ = false;
  bool paused_ = false;
  bool ending_ = false;
};

}  // namespace holdfast::agent::streams
