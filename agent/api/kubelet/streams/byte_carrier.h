// SPDX-License-Identifier: Apache-2.0
// ByteCarrier: bytes both ways, bare TLS or the messages of a WebSocket. All calls and callbacks on the
// connection's executor; a callback is never called from within the call that takes it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace holdfast::agent::streams {

class ByteCarrier {
 public:
  using Done = std::function<void(bool ok)>;
  using Received = std::function<void(bool ok, std::string_view bytes)>;  // !ok: no more will come

  virtual ~ByteCarrier() = default;
  virtual void Read(Received received) = 0;              // one at a time
  virtual void Write(std::string bytes, Done done) = 0;  // one at a time
  // Tells the peer that this is all. What it still sends is thrown away, or its view of what we sent
  // last would be lost with a reset; after a second at the latest the connection is gone.
  virtual void End() = 0;
  virtual void Drop() = 0;  // gone, now
  virtual int socket() const = 0;
};

}  // namespace holdfast::agent::streams
