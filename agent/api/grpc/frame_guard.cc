// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/frame_guard.h"

#include <algorithm>

#include "holdfast/base/strings.h"

namespace holdfast::agent::api {

using http2::ErrorCode;
using http2::FrameHeader;
using http2::FrameType;

std::optional<FrameGuard::Violation> FrameGuard::FromClient(std::string_view bytes, Time now) {
  const size_t wanted = std::min(http2::kPreface.size() - preface_read_, bytes.size());
  if (bytes.substr(0, wanted) != http2::kPreface.substr(preface_read_, wanted)) {
    return Violation{ErrorCode::kProtocolError, "the connection does not begin as HTTP/2 does"};
  }
  preface_read_ += wanted;
  bytes.remove_prefix(wanted);
  Refill(now);
  std::optional<Violation> violation;
  client_.Read(bytes, [&](const FrameHeader& frame) {
    violation = Judge(frame);
    return !violation;
  });
  return violation;
}

std::optional<FrameGuard::Violation> FrameGuard::Judge(const FrameHeader& frame) {
  if (!greeted_ && frame.type != FrameType::kSettings) {
    return Violation{ErrorCode::kProtocolError, "the first frame is not SETTINGS"};
  }
  greeted_ = true;
  const bool continues = frame.type == FrameType::kContinuation;
  if (continues != (block_stream_ != 0) || (continues && frame.stream != block_stream_)) {
    return Violation{ErrorCode::kProtocolError, "a header block that its own frames do not end"};
  }
  if (continues || frame.type == FrameType::kHeaders) return JudgeHeaderBlock(frame);
  if (frame.type == FrameType::kRstStream) open_.erase(frame.stream);
  const bool carries = frame.type == FrameType::kData && (frame.length > 0 || frame.EndsStream());
  return carries ? std::nullopt : SpendControlFrame();
}

std::optional<FrameGuard::Violation> FrameGuard::JudgeHeaderBlock(const FrameHeader& frame) {
  if (block_stream_ == 0) {
    block_bytes_ = 0;
    block_frames_ = 0;
    if (auto refused = BeginStream(frame.stream)) return refused;
  }
  block_bytes_ += frame.length;
  ++block_frames_;
  if (block_bytes_ > kMaxHeaderBlock || block_frames_ > kMaxHeaderFrames) {
    return Violation{ErrorCode::kEnhanceYourCalm,
                     StrCat("a header block of more than ", kMaxHeaderBlock, " bytes or ",
                            kMaxHeaderFrames, " frames")};
  }
  block_stream_ = frame.EndsHeaders() ? 0 : frame.stream;
  return std::nullopt;
}

// A client that keeps to our SETTINGS never has more streams than are counted here: one is
// forgotten before its end reaches the client.
std::optional<FrameGuard::Violation> FrameGuard::BeginStream(uint32_t stream) {
  if (stream == 0) {
    return Violation{ErrorCode::kProtocolError, "a header block that belongs to no stream"};
  }
  if (stream <= last_stream_) return SpendControlFrame();  // trailers
  last_stream_ = stream;
  open_.insert(stream);
  if (open_.size() <= max_streams_) return std::nullopt;
  return Violation{ErrorCode::kEnhanceYourCalm,
                   StrCat("more than ", max_streams_, " calls at once on one connection")};
}

std::optional<FrameGuard::Violation> FrameGuard::SpendControlFrame() {
  if (--control_credit_ >= 0) return std::nullopt;
  return Violation{
      ErrorCode::kEnhanceYourCalm,
      StrCat("too many frames that carry nothing (RST_STREAM, SETTINGS, PING, …): more "
             "than ",
             kControlFramesPerSecond, " per second after the first ", kControlFrameBurst)};
}

void FrameGuard::Refill(Time now) {
  // Whole hundredths of a second only: what is left over counts the next time.
  constexpr auto kStep =
      std::chrono::nanoseconds(std::chrono::seconds(1)) / kControlFramesPerSecond;
  const auto steps = (now - refilled_) / kStep;
  refilled_ += steps * kStep;
  control_credit_ = std::min(control_credit_ + steps, kControlFrameBurst);
}

void FrameGuard::ToClient(std::string_view bytes) {
  sent_bytes_ += static_cast<int64_t>(bytes.size());
  control_credit_ =
      std::min(control_credit_ + sent_bytes_ / kSentBytesPerControlFrame, kControlFrameBurst);
  sent_bytes_ %= kSentBytesPerControlFrame;
  server_.Read(bytes, [&](const FrameHeader& frame) {
    const bool headers = frame.type == FrameType::kHeaders;
    if (headers || frame.type == FrameType::kContinuation) {
      server_block_open_ = !frame.EndsHeaders();
    }
    if (frame.type == FrameType::kRstStream ||
        ((headers || frame.type == FrameType::kData) && frame.EndsStream())) {
      open_.erase(frame.stream);
    }
    return true;
  });
}

}  // namespace holdfast::agent::api
