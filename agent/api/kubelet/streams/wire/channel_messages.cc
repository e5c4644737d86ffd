// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/streams/wire/channel_messages.h"

#include <charconv>
#include <utility>

#include "holdfast/base/ascii.h"
#include "holdfast/base/base64.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::streams {
namespace {

constexpr uint8_t kClose = 255;
constexpr size_t kMaxSizeObject = 1024;

// The number that follows a key, in any case as Go reads it; 0 without.
uint16_t NumberOf(std::string_view object, std::string_view key) {
  const std::string lower = ToLower(object);
  size_t at = lower.find(StrCat("\"", key, "\""));
  if (at == std::string::npos) return 0;
  at = lower.find_first_not_of(" \t\r\n:", at + key.size() + 2);
  if (at == std::string::npos) return 0;
  uint16_t value = 0;
  (void)std::from_chars(lower.data() + at, lower.data() + lower.size(), value);  // else it is 0
  return value;
}

}  // namespace

Result<std::optional<TerminalSize>> SizeReader::Read(std::string_view bytes) {
  std::optional<TerminalSize> newest;
  for (const char c : bytes) {
    object_ += c;
    if (object_.size() > kMaxSizeObject) {
      return InvalidArgument("terminal size: an object of more than 1024 bytes");
    }
    if (c != '}') continue;
    newest = TerminalSize{NumberOf(object_, "height"), NumberOf(object_, "width")};
    object_.clear();
  }
  return newest;
}

Result<void> MessageReader::ReadChannel(std::string_view& piece) {
  if (channel_ || piece.empty()) return {};
  const auto first = static_cast<uint8_t>(piece.front());
  if (base64_ && (first < '0' || first > '9')) {
    return InvalidArgument("a message's first character is no channel's digit");
  }
  channel_ = base64_ ? static_cast<uint8_t>(first - '0') : first;
  piece.remove_prefix(1);
  return {};
}

// Groups of four as they come; nothing follows a padded one.
std::optional<std::string> MessageReader::Decode(std::string_view piece) {
  const bool line_ends = piece.find_first_of("\r\n") != std::string_view::npos;
  if (line_ends || (padded_ && !piece.empty())) return std::nullopt;
  quantum_ += piece;
  const size_t whole = quantum_.size() / 4 * 4;
  auto bytes = DecodeBase64(std::string_view(quantum_).substr(0, whole));
  if (whole > 0) padded_ = quantum_[whole - 1] == '=';
  quantum_.erase(0, whole);
  if (padded_ && !quantum_.empty()) return std::nullopt;
  return bytes;
}

Result<void> MessageReader::Read(std::string_view piece, bool last, const Taken& taken) {
  RETURN_IF_ERROR(ReadChannel(piece));
  if (!channel_) return {};  // an empty message says nothing
  const uint8_t channel = *channel_;
  if (last) channel_.reset();
  if (!base64_) return taken(channel, piece, last);
  const auto bytes = Decode(piece);
  const bool whole = quantum_.empty();
  if (last) padded_ = false;
  if (!bytes || (last && !whole)) return InvalidArgument("a message is not base64");
  return taken(channel, *bytes, last);
}

Result<void> ChannelReader::Read(std::string_view piece, bool last, ChannelEvents& events) {
  return messages_.Read(piece, last,
                        [&](uint8_t channel, std::string_view bytes, bool end) -> Result<void> {
                          return Take(channel, bytes, end, events);
                        });
}

Result<void> ChannelReader::Take(uint8_t channel, std::string_view bytes, bool last,
                                 ChannelEvents& events) {
  if (channel == kClose) return TakeClose(bytes, last, events);
  if (channel == kStdinChannel && !bytes.empty()) events.OnInput(bytes);
  if (channel == kResizeChannel) {
    ASSIGN_OR_RETURN(const std::optional<TerminalSize> size, sizes_.Read(bytes));
    if (size) events.OnSize(*size);
  }
  return {};  // a channel that only goes the other way, or none: the kubelet drops it too
}

Result<void> ChannelReader::TakeClose(std::string_view bytes, bool last, ChannelEvents& events) {
  closed_ += bytes;
  if (!closes_channels_ || closed_.size() > 1)
    return InvalidArgument("a close message that is none");
  if (!last) return {};
  const std::string which = std::exchange(closed_, {});
  if (which.size() != 1 || static_cast<uint8_t>(which[0]) > kResizeChannel) {
    return InvalidArgument("a close message that names no channel");
  }
  if (static_cast<uint8_t>(which[0]) == kStdinChannel) events.OnInputEnd();
  return {};
}

std::string ChannelMessage(uint8_t channel, std::string_view bytes, bool base64) {
  const auto number = static_cast<char>(channel);
  if (base64) return static_cast<char>('0' + number) + EncodeBase64(bytes);
  std::string message;
  message.reserve(bytes.size() + 1);
  message += number;
  message += bytes;
  return message;
}

}  // namespace holdfast::agent::streams
