// SPDX-License-Identifier: Apache-2.0
// HTTP/2 frames (RFC 9113, section 4) as far as watching a connection needs them: headers are read,
// payloads are counted and never kept. Pure; single-thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::agent::api::http2 {

// What every client sends first (section 3.4).
inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr size_t kFrameHeaderSize = 9;

enum class FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kRstStream = 3,
  kSettings = 4,
  kGoaway = 7,
  kContinuation = 9,
};

enum class ErrorCode : uint32_t { kNoError = 0, kProtocolError = 1, kEnhanceYourCalm = 11 };

struct FrameHeader {
  uint32_t length = 0;  // of the payload, bytes
  FrameType type{};     // also values that have no name above
  uint8_t flags = 0;
  uint32_t stream = 0;

  bool EndsStream() const { return (flags & 0x1) != 0; }   // DATA, HEADERS
  bool EndsHeaders() const { return (flags & 0x4) != 0; }  // HEADERS, CONTINUATION
};

FrameHeader ParseFrameHeader(const std::array<char, kFrameHeaderSize>& bytes);

// The frame that ends a connection: no stream above `last_stream` was looked at.
std::string Goaway(uint32_t last_stream, ErrorCode code, std::string_view text);

// Cuts one direction of a connection into frames, whatever pieces it arrives in.
class FrameReader {
 public:
  // Calls visit(FrameHeader) for each header that `bytes` completes; ends early when it gives
  // false.
  template <class Visit>
  void Read(std::string_view bytes, const Visit& visit) {
    while (!bytes.empty()) {
      if (payload_left_ > 0) {
        const size_t skipped = std::min(payload_left_, bytes.size());
        payload_left_ -= skipped;
        bytes.remove_prefix(skipped);
        continue;
      }
      const size_t taken = std::min(kFrameHeaderSize - have_, bytes.size());
      std::copy_n(bytes.begin(), taken, header_.begin() + static_cast<std::ptrdiff_t>(have_));
      have_ += taken;
      bytes.remove_prefix(taken);
      if (have_ < kFrameHeaderSize) return;
      have_ = 0;
      const FrameHeader frame = ParseFrameHeader(header_);
      payload_left_ = frame.length;
      if (!visit(frame)) return;
    }
  }
  bool BetweenFrames() const { return have_ == 0 && payload_left_ == 0; }

 private:
  std::array<char, kFrameHeaderSize> header_{};
  size_t have_ = 0;
  size_t payload_left_ = 0;
};

}  // namespace holdfast::agent::api::http2
