// SPDX-License-Identifier: Apache-2.0
// gRPC's health protocol over HTTP/2 (RFC 9113, RFC 7541, grpc.health.v1), both sides, without a library: what both
// say is always the same, so it stands here as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::bench {

enum Frame : uint8_t { kData = 0, kHeaders = 1, kSettings = 4, kPing = 6 };
inline constexpr uint8_t kEndStream = 1, kEndHeaders = 4, kAck = 1;
inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

inline std::string MakeFrame(Frame type, uint8_t flags, uint32_t stream, std::string_view payload) {
  const auto size = static_cast<uint32_t>(payload.size());
  std::string out;
  for (const int shift : {16, 8, 0}) out += static_cast<char>(size >> shift);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(stream >> shift);
  return out.append(payload);
}

// A header field that stands for itself, by the name's index in the static table (its first four bits full), or by
// name. Values are shorter than 127 bytes.
inline std::string Indexed(uint8_t above15, std::string_view value) {
  return std::string{'\x0f', static_cast<char>(above15), static_cast<char>(value.size())}.append(
      value);
}
inline std::string Named(std::string_view name, std::string_view value) {
  return (std::string{'\0', static_cast<char>(name.size())}.append(name) +=
          static_cast<char>(value.size()))
      .append(value);
}

// A message behind gRPC's prefix: not compressed, its length.
inline std::string Message(std::string_view bytes) {
  return std::string{0, 0, 0, 0, static_cast<char>(bytes.size())}.append(bytes);
}

// ":status 200", then status SERVING, then "grpc-status 0".
inline std::string ServingAnswer(uint32_t stream) {
  return MakeFrame(kHeaders, kEndHeaders, stream, "\x88" + Indexed(31 - 15, "application/grpc")) +
         MakeFrame(kData, 0, stream, Message("\x08\x01")) +
         MakeFrame(kHeaders, kEndHeaders | kEndStream, stream, Named("grpc-status", "0"));
}

// The whole of what a client has to say: ":method POST", ":scheme http", the path, the authority, no service.
inline std::string HealthQuestionBytes() {
  std::string head = "\x83\x86";
  head += std::string{'\x04', 28}.append("/grpc.health.v1.Health/Check");
  head += std::string{'\x01', 1}.append("p");
  head += Indexed(31 - 15, "application/grpc") + Named("te", "trailers");
  return std::string(kPreface) + MakeFrame(kSettings, 0, 0, "") +
         MakeFrame(kHeaders, kEndHeaders, 1, head) + MakeFrame(kData, kEndStream, 1, Message(""));
}

// Takes whole frames off the front of `bytes` and gives each to `take(type, flags, stream)`.
template <typename Take>
void TakeFrames(std::string& bytes, Take take) {
  while (bytes.size() >= 9) {
    const auto at = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])); };
    const size_t size = at(0) << 16 | at(1) << 8 | at(2);
    if (bytes.size() < 9 + size) return;
    const uint32_t stream = (at(5) << 24 | at(6) << 16 | at(7) << 8 | at(8)) & 0x7fffffff;
    const auto type = static_cast<Frame>(at(3));
    const auto flags = static_cast<uint8_t>(at(4));
    bytes.erase(0, 9 + size);
    take(type, flags, stream);
  }
}

}  // namespace holdfast::bench
