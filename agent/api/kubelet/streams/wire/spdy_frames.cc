// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/streams/wire/spdy_frames.h"

#include <algorithm>

#include "holdfast/base/strings.h"

namespace holdfast::agent::streams {
namespace {

constexpr uint16_t kVersion = 3;
constexpr size_t kHead = 8;
constexpr uint8_t kFin = 1;
constexpr uint32_t kStreamMask = 0x7fffffff;
enum Type : uint16_t { kSynStream = 1, kSynReply = 2, kRstStream = 3, kPing = 6, kGoAway = 7 };

uint8_t ByteAt(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

uint32_t NumberAt(std::string_view bytes, size_t at, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) value = value << 8 | ByteAt(bytes, at + i);
  return value;
}

std::string Number(uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
  return out;
}

std::string FlagsAndSize(uint8_t flags, size_t size) {
  return Number(static_cast<uint32_t>(flags) << 24 | static_cast<uint32_t>(size));
}

std::string Control(uint16_t type, std::string_view body) {
  return StrCat(Number(0x80000000u | uint32_t{kVersion} << 16 | type), FlagsAndSize(0, body.size()),
                body);
}

}  // namespace

Result<void> SpdyReader::Read(std::string_view bytes, SpdyEvents& events) {
  while (!bytes.empty()) {
    if (head_.size() < kHead) {
      const size_t take = std::min(kHead - head_.size(), bytes.size());
      head_ += bytes.substr(0, take);
      bytes.remove_prefix(take);
      if (head_.size() == kHead) RETURN_IF_ERROR(BeginFrame(events));
    } else if (control_) {
      const size_t take = std::min(left_, bytes.size());
      body_ += bytes.substr(0, take);
      bytes.remove_prefix(take);
      left_ -= take;
      if (left_ == 0) RETURN_IF_ERROR(Control(events));
    } else {
      bytes = TakeData(bytes, events);
    }
  }
  return {};
}

Result<void> SpdyReader::BeginFrame(SpdyEvents& events) {
  left_ = NumberAt(head_, 5, 3);
  last_ = (ByteAt(head_, 4) & kFin) != 0;
  control_ = (ByteAt(head_, 0) & 0x80) != 0;
  if (control_) return BeginControl(events);
  stream_ = NumberAt(head_, 0, 4);
  if (left_ > 0) return {};
  head_.clear();
  events.OnData(stream_, {}, last_);
  return {};
}

Result<void> SpdyReader::BeginControl(SpdyEvents& events) {
  const auto version = static_cast<uint16_t>(NumberAt(head_, 0, 2) & 0x7fff);
  type_ = static_cast<uint16_t>(NumberAt(head_, 2, 2));
  if (version != kVersion) return InvalidArgument(StrCat("SPDY: a frame of version ", version));
  if (left_ > kMaxControl) {
    return InvalidArgument(StrCat("SPDY: a control frame of ", left_, " bytes"));
  }
  if (left_ == 0) return Control(events);
  return {};
}

std::string_view SpdyReader::TakeData(std::string_view bytes, SpdyEvents& events) {
  const size_t take = std::min(left_, bytes.size());
  left_ -= take;
  const bool whole = left_ == 0;
  if (whole) head_.clear();
  events.OnData(stream_, bytes.substr(0, take), whole && last_);
  return bytes.substr(take);
}

Result<uint32_t> SpdyReader::Word(size_t at) const {
  if (body_.size() < at + 4)
    return InvalidArgument(StrCat("SPDY: frame type ", type_, " cut short"));
  return NumberAt(body_, at, 4);
}

Result<void> SpdyReader::Control(SpdyEvents& events) {
  head_.clear();
  Result<void> done;
  switch (type_) {
    case kSynStream:
      done = SynStream(events);
      break;
    case kSynReply:
      done = InvalidArgument("SPDY: a reply to a stream that nobody opened");
      break;
    case kRstStream: {
      ASSIGN_OR_RETURN(const uint32_t stream, Word(0));
      events.OnReset(stream & kStreamMask);
      break;
    }
    case kPing: {
      ASSIGN_OR_RETURN(const uint32_t id, Word(0));
      events.OnPing(id);
      break;
    }
    case kGoAway:
      events.OnGoAway();
      break;
    default:
      break;  // SETTINGS, WINDOW_UPDATE and what is unknown: of no use here
  }
  body_.clear();
  return done;
}

// Stream, associated stream, priority and slot, headers.
Result<void> SpdyReader::SynStream(SpdyEvents& events) {
  constexpr size_t kHeaders = 10;
  ASSIGN_OR_RETURN(const uint32_t word, Word(0));
  const uint32_t stream = word & kStreamMask;
  if (body_.size() < kHeaders) return InvalidArgument("SPDY: SYN_STREAM cut short");
  if (stream % 2 == 0 || stream <= last_opened_) {
    return InvalidArgument(StrCat("SPDY: stream ", stream, " opened after ", last_opened_));
  }
  last_opened_ = stream;
  ASSIGN_OR_RETURN(SpdyHeaders headers, headers_.Read(std::string_view(body_).substr(kHeaders)));
  events.OnOpen(stream, std::move(headers), last_);
  return {};
}

Result<std::string> SpdyWriter::Reply(uint32_t stream) {
  ASSIGN_OR_RETURN(const std::string headers, headers_.Write({}));
  return Control(kSynReply, Number(stream) + headers);
}

std::string SpdyWriter::Data(uint32_t stream, std::string_view bytes, bool last) {
  return StrCat(Number(stream), FlagsAndSize(last ? kFin : 0, bytes.size()), bytes);
}

std::string SpdyWriter::Reset(uint32_t stream, SpdyReset why) {
  return Control(kRstStream, Number(stream) + Number(static_cast<uint32_t>(why)));
}

std::string SpdyWriter::Ping(uint32_t id) { return Control(kPing, Number(id)); }

std::string SpdyWriter::GoAway(uint32_t last_stream) {
  return Control(kGoAway, Number(last_stream) + Number(0));
}

}  // namespace holdfast::agent::streams
