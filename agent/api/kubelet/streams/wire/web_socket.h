// SPDX-License-Identifier: Apache-2.0
// WebSocket: messages over a connection that left HTTP. Pings are answered while somebody reads. All calls
// and callbacks on the connection's executor. Source: RFC 6455; no extensions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace holdfast::agent::streams {

// Why a connection is closed, RFC 6455 section 7.4.1.
enum class CloseCode : uint16_t { kNormal = 1000, kProtocolError = 1002 };

class WebSocket {
 public:
  using Done = std::function<void(bool ok)>;
  // A piece of a message; `last` when the message ends with it.
  using Received = std::function<void(bool ok, std::string_view bytes, bool last)>;

  virtual ~WebSocket() = default;
  // Answers the request; `protocol` is named in the answer unless empty.
  virtual void Accept(const std::string& protocol, Done done) = 0;
  virtual void Read(Received received) = 0;                           // one at a time
  virtual void Write(std::string message, bool text, Done done) = 0;  // one at a time
  // A Close frame, then the connection's end: with the peer's own, after a second at the latest.
  virtual void Close(CloseCode code) = 0;
  virtual void Drop() = 0;
  virtual int socket() const = 0;
};

}  // namespace holdfast::agent::streams
