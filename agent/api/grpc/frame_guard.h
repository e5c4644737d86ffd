// SPDX-License-Identifier: Apache-2.0
// FrameGuard: the limits on HTTP/2 frames that gRPC 1.51 does not set itself. It buffers a header
// block without end (CONTINUATION), and does not count streams before its SETTINGS are acknowledged
// (CVE-2023-44487, CVE-2024-27316 and their kin; catalogue row AP-07).
//
// One per connection; sees the bytes of both directions on their way. Pure but for the time it is
// given; single-thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "agent/api/grpc/http2_frames.h"

namespace holdfast::agent::api {

// Encoded bytes of one header block and the frames it comes in. gRPC answers up to here, call by
// call, what is above its own limit of 8 KiB metadata.
inline constexpr size_t kMaxHeaderBlock = 64 << 10;
inline constexpr uint32_t kMaxHeaderFrames = 16;
// Frames that carry nothing (RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, empty DATA, …): so many at
// once, so many per second, and one more per so many bytes that were sent to the client, since a
// reader has to say that it reads.
inline constexpr int64_t kControlFrameBurst = 1000;
inline constexpr int64_t kControlFramesPerSecond = 100;
inline constexpr int64_t kSentBytesPerControlFrame = 32;

class FrameGuard {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Why the connection must end.
  struct Violation {
    http2::ErrorCode code;
    std::string text;
  };

  FrameGuard(uint32_t max_streams, Time now) : max_streams_(max_streams), refilled_(now) {}

  // Bytes from the client, before gRPC gets them. Not to be called again after a violation.
  std::optional<Violation> FromClient(std::string_view bytes, Time now);
  // Bytes from gRPC.
  void ToClient(std::string_view bytes);

  // The preface and the first SETTINGS have begun to arrive.
  bool Greeted() const { return greeted_; }
  // Calls that were begun and not ended by either side.
  size_t OpenCalls() const { return open_.size(); }
  // 0: no call was ever begun.
  uint32_t LastStream() const { return last_stream_; }
  // Whether a frame of our own could be put behind what gRPC has sent.
  bool CanInsertToClient() const { return server_.BetweenFrames() && !server_block_open_; }

 private:
  std::optional<Violation> Judge(const http2::FrameHeader& frame);
  std::optional<Violation> JudgeHeaderBlock(const http2::FrameHeader& frame);
  std::optional<Violation> BeginStream(uint32_t stream);
  std::optional<Violation> SpendControlFrame();
  void Refill(Time now);

  const uint32_t max_streams_;
  http2::FrameReader client_;
  http2::FrameReader server_;
  size_t preface_read_ = 0;
  bool greeted_ = false;
  std::unordered_set<uint32_t> open_;
  uint32_t last_stream_ = 0;
  // The client's header block that has not ended: its stream, 0 for none.
  uint32_t block_stream_ = 0;
  size_t block_bytes_ = 0;
  uint32_t block_frames_ = 0;
  bool server_block_open_ = false;
  int64_t control_credit_ = kControlFrameBurst;
  int64_t sent_bytes_ = 0;  // not yet turned into credit
  Time refilled_;
};

}  // namespace holdfast::agent::api
