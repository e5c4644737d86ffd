// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/http2_frames.h"

namespace holdfast::agent::api::http2 {
namespace {

constexpr uint32_t kStreamMask = 0x7fffffff;  // the highest bit is reserved

void AppendBigEndian(std::string& out, uint32_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

}  // namespace

FrameHeader ParseFrameHeader(const std::array<char, kFrameHeaderSize>& bytes) {
  const auto at = [&](size_t i) { return uint32_t{static_cast<unsigned char>(bytes[i])}; };
  FrameHeader frame;
  frame.length = at(0) << 16 | at(1) << 8 | at(2);
  frame.type = static_cast<FrameType>(at(3));
  frame.flags = static_cast<uint8_t>(at(4));
  frame.stream = (at(5) << 24 | at(6) << 16 | at(7) << 8 | at(8)) & kStreamMask;
  return frame;
}

std::string Goaway(uint32_t last_stream, ErrorCode code, std::string_view text) {
  std::string frame;
  AppendBigEndian(frame, static_cast<uint32_t>(8 + text.size()), 3);
  frame += static_cast<char>(FrameType::kGoaway);
  frame += '\0';                 // no flags
  AppendBigEndian(frame, 0, 4);  // the connection, no stream
  AppendBigEndian(frame, last_stream, 4);
  AppendBigEndian(frame, static_cast<uint32_t>(code), 4);
  return frame.append(text);
}

}  // namespace holdfast::agent::api::http2
