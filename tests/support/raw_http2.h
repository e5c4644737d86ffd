// SPDX-License-Identifier: Apache-2.0
// RawHttp2: a client of the API socket that sends whatever frames a test wants, and shows the
// frames that come back. No gRPC, no flow control of its own.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/base/unique_fd.h"

namespace holdfast::test_support {

class RawHttp2 {
 public:
  enum Type : uint8_t {
    kData = 0,
    kHeaders = 1,
    kPriority = 2,
    kRstStream = 3,
    kSettings = 4,
    kPing = 6,
    kGoaway = 7,
    kWindowUpdate = 8,
    kContinuation = 9
  };
  static constexpr uint8_t kAck = 1;
  static constexpr uint8_t kEndStream = 1;
  static constexpr uint8_t kEndHeaders = 4;
  static constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

  struct Frame {
    uint8_t type;
    uint8_t flags;
    uint32_t stream;
    std::string payload;
  };

  static std::string Number(uint32_t value, int bytes = 4) {
    std::string out;
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>((value >> (8 * i)) & 0xff);
    return out;
  }
  static std::string Encode(uint8_t type, uint8_t flags, uint32_t stream,
                            std::string_view payload = {}) {
    std::string out = Number(static_cast<uint32_t>(payload.size()), 3);
    out += static_cast<char>(type);
    out += static_cast<char>(flags);
    return out.append(Number(stream)).append(payload);
  }
  // A header field of HPACK without compression and without a place in its table.
  static std::string Literal(std::string_view name, std::string_view value) {
    return std::string(1, '\0') + Text(name) + Text(value);
  }
  // The header block of a gRPC call.
  static std::string CallHeaders(std::string_view method) {
    return Literal(":method", "POST") + Literal(":scheme", "http") +
           Literal(":path", std::string("/holdfast.v1.NodeAgent/").append(method)) +
           Literal(":authority", "agent") + Literal("te", "trailers") +
           Literal("content-type", "application/grpc");
  }
  // A message as DATA carries it.
  static std::string Message(std::string_view bytes) {
    return std::string(1, '\0') + Number(static_cast<uint32_t>(bytes.size())) + std::string(bytes);
  }

  explicit RawHttp2(const std::string& socket_path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    connected_ =
        ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    (void)::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
  }

  bool connected() const { return connected_; }
  int fd() const { return socket_.get(); }

  // Writes all of it, reading meanwhile so that the server is never held up by us (unless `deaf`);
  // false when the server has closed, or takes nothing for 5 s.
  bool Send(std::string_view bytes, bool deaf = false) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count > 0) {
        bytes.remove_prefix(static_cast<size_t>(count));
        continue;
      }
      if (errno != EAGAIN) return false;
      pollfd fd{.fd = socket_.get(),
                .events = static_cast<int16_t>(POLLOUT | (deaf ? 0 : POLLIN)),
                .revents = 0};
      if (::poll(&fd, 1, 5000) != 1) return false;
      if (!deaf && (fd.revents & POLLIN) != 0 && !Fill()) return false;
    }
    return true;
  }
  bool Send(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload = {}) {
    return Send(Encode(type, flags, stream, payload));
  }
  // Preface and SETTINGS; the server's SETTINGS are acknowledged only if `acknowledge`.
  bool Greet(bool acknowledge = true, std::string_view settings = {}) {
    if (!Send(std::string(kPreface) + Encode(kSettings, 0, 0, settings))) return false;
    if (!acknowledge) return true;
    return Await([](const Frame& f) { return f.type == kSettings && f.flags == 0; }) &&
           Send(kSettings, kAck, 0);
  }

  // The next frame that `wanted` wants, others dropped; nullopt at the end or after `limit`.
  template <class Wanted>
  std::optional<Frame> Await(const Wanted& wanted,
                             std::chrono::milliseconds limit = std::chrono::seconds(10)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (true) {
      while (auto frame = TakeFrame()) {
        if (wanted(*frame)) return frame;
      }
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd fd{.fd = socket_.get(), .events = POLLIN, .revents = 0};
      if (left.count() <= 0 || ::poll(&fd, 1, static_cast<int>(left.count())) != 1) {
        return std::nullopt;
      }
      if (!Fill()) return std::nullopt;
    }
  }
  // The text of the GOAWAY that ends the connection; "" when it ends without one or goes on.
  std::string AwaitGoaway(std::chrono::milliseconds limit = std::chrono::seconds(10)) {
    const auto frame = Await([](const Frame& f) { return f.type == kGoaway; }, limit);
    return frame && frame->payload.size() >= 8 ? frame->payload.substr(8) : std::string();
  }
  // Whether the server has closed within `limit`.
  bool AwaitEnd(std::chrono::milliseconds limit = std::chrono::seconds(10)) {
    (void)Await([](const Frame&) { return false; }, limit);
    return ended_;
  }

 private:
  static std::string Text(std::string_view text) {
    std::string out;
    size_t length = text.size();
    if (length < 127) {
      out += static_cast<char>(length);
    } else {  // RFC 7541, 5.1: a 7 bit prefix, then groups of 7 bits
      out += '\x7f';
      for (length -= 127; length >= 128; length /= 128) {
        out += static_cast<char>(length % 128 + 128);
      }
      out += static_cast<char>(length);
    }
    return out.append(text);
  }

  bool Fill() {
    std::array<char, 65536> buffer;
    const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) received_.append(buffer.data(), static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EAGAIN)) ended_ = true;
    return !ended_;
  }
  std::optional<Frame> TakeFrame() {
    const auto at = [&](size_t i) { return uint32_t{static_cast<unsigned char>(received_[i])}; };
    if (received_.size() < 9) return std::nullopt;
    const size_t length = at(0) << 16 | at(1) << 8 | at(2);
    if (received_.size() < 9 + length) return std::nullopt;
    Frame frame{static_cast<uint8_t>(at(3)), static_cast<uint8_t>(at(4)),
                (at(5) & 0x7f) << 24 | at(6) << 16 | at(7) << 8 | at(8),
                received_.substr(9, length)};
    received_.erase(0, 9 + length);
    return frame;
  }

  UniqueFd socket_;
  bool connected_ = false;
  bool ended_ = false;
  std::string received_;
};

}  // namespace holdfast::test_support
