// SPDX-License-Identifier: Apache-2.0
// The messages of exec and attach over WebSocket: one byte of channel, then bytes; or, with base64, one
// digit, then text. Read piece by piece, so that a message needs no memory of its own. Pure.
// Source: control-plane 7.3.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/stream/session.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::streams {

inline constexpr uint8_t kStdinChannel = 0;
inline constexpr uint8_t kStdoutChannel = 1;
inline constexpr uint8_t kStderrChannel = 2;
inline constexpr uint8_t kErrorChannel = 3;
inline constexpr uint8_t kResizeChannel = 4;

// Sizes of a terminal as a stream of JSON objects: {"Width":80,"Height":24}.
class SizeReader {
 public:
  // The newest size that is complete; absent when there is none. What cannot be read is an error.
  Result<std::optional<TerminalSize>> Read(std::string_view bytes);

 private:
  std::string object_;
};

// What a client's messages mean, in their order.
class ChannelEvents {
 public:
  virtual ~ChannelEvents() = default;
  virtual void OnInput(std::string_view bytes) = 0;
  virtual void OnInputEnd() = 0;
  virtual void OnSize(TerminalSize size) = 0;
};

// Messages as channels and bytes.
class MessageReader {
 public:
  explicit MessageReader(bool base64) : base64_(base64) {}

  // A piece of what a message has for a channel; `last` with the message's end.
  using Taken = std::function<Result<void>(uint8_t channel, std::string_view bytes, bool last)>;
  // The next piece of a message; `last` when the message ends with it. Failures are passed on.
  Result<void> Read(std::string_view piece, bool last, const Taken& taken);

 private:
  Result<void> ReadChannel(std::string_view& piece);
  std::optional<std::string> Decode(std::string_view piece);

  const bool base64_;
  std::optional<uint8_t> channel_;  // of the message that is being read
  std::string quantum_;             // base64: less than four characters
  bool padded_ = false;             // base64: this was all
};

class ChannelReader {
 public:
  ChannelReader(bool base64, bool closes_channels)
      : messages_(base64), closes_channels_(closes_channels) {}

  // As MessageReader; an error ends the connection.
  Result<void> Read(std::string_view piece, bool last, ChannelEvents& events);

 private:
  Result<void> Take(uint8_t channel, std::string_view bytes, bool last, ChannelEvents& events);
  Result<void> TakeClose(std::string_view bytes, bool last, ChannelEvents& events);

  MessageReader messages_;
  const bool closes_channels_;
  std::string closed_;  // which channels a close message names
  SizeReader sizes_;
};

// One message to the client.
std::string ChannelMessage(uint8_t channel, std::string_view bytes, bool base64);

}  // namespace holdfast::agent::streams
