// SPDX-License-Identifier: Apache-2.0
// Frames of SPDY/3.1 as the peers of a kubelet use it: no flow control, streams opened by the client.
// Bytes in, events out; and frames as bytes. No I/O; not thread-safe.
// Source: SPDY/3.1 section 2; control-plane 7.5.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/api/kubelet/streams/wire/spdy_headers.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::streams {

enum class SpdyReset : uint32_t {
  kProtocolError = 1,
  kInvalidStream = 2,
  kRefusedStream = 3,
  kCancel = 5,
};

class SpdyEvents {
 public:
  virtual ~SpdyEvents() = default;
  virtual void OnOpen(uint32_t stream, SpdyHeaders headers, bool last) = 0;
  // A piece of a frame; `last` when the client sends no more on this stream.
  virtual void OnData(uint32_t stream, std::string_view bytes, bool last) = 0;
  virtual void OnReset(uint32_t stream) = 0;
  virtual void OnPing(uint32_t id) = 0;
  virtual void OnGoAway() = 0;
};

class SpdyReader {
 public:
  static constexpr size_t kMaxControl = 64 * 1024;

  // However the bytes are cut. After an error the connection cannot go on.
  Result<void> Read(std::string_view bytes, SpdyEvents& events);

 private:
  Result<void> BeginFrame(SpdyEvents& events);
  Result<void> BeginControl(SpdyEvents& events);
  Result<void> Control(SpdyEvents& events);
  Result<void> SynStream(SpdyEvents& events);
  Result<uint32_t> Word(size_t at) const;  // of body_
  std::string_view TakeData(std::string_view bytes, SpdyEvents& events);

  SpdyHeaderReader headers_;
  std::string head_;  // of the frame that is being read, up to 8 bytes
  std::string body_;  // of a control frame
  size_t left_ = 0;   // bytes of the frame still to come
  bool control_ = false;
  uint16_t type_ = 0;
  uint32_t stream_ = 0;       // of a data frame
  uint32_t last_opened_ = 0;  // the client's ids are odd and grow
  bool last_ = false;         // FLAG_FIN
};

// Frames to the client.
class SpdyWriter {
 public:
  Result<std::string> Reply(uint32_t stream);  // SYN_REPLY with no headers
  static std::string Data(uint32_t stream, std::string_view bytes, bool last);
  static std::string Reset(uint32_t stream, SpdyReset why);
  static std::string Ping(uint32_t id);
  static std::string GoAway(uint32_t last_stream);

 private:
  SpdyHeaderWriter headers_;
};

}  // namespace holdfast::agent::streams
