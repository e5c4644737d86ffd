// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/watch_frames.h"

#include <algorithm>

#include "agent/kube/varint.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr size_t kLengthSize = 4;
constexpr size_t kKeepCapacity = 64 << 10;  // what a large frame took beyond that is given back

Error NoEvent(const char* why) { return InvalidArgument(StrCat("no watch event: ", why)); }

// --- protobuf: tags and lengths, as far as a WatchEvent needs them ---

struct WireField {
  uint64_t number = 0;
  std::string_view bytes;  // of a field with a length; empty for others
};

std::optional<std::string_view> TakeBytes(std::string_view& bytes, uint64_t size) {
  if (size > bytes.size()) return std::nullopt;
  const std::string_view taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return taken;
}

std::optional<WireField> TakeField(std::string_view& bytes) {
  const auto tag = kube::TakeVarint(bytes);
  if (!tag) return std::nullopt;
  WireField field{*tag >> 3, {}};
  switch (*tag & 7) {
    case 0:
      return kube::TakeVarint(bytes) ? std::optional(field) : std::nullopt;
    case 1:
      return TakeBytes(bytes, 8) ? std::optional(field) : std::nullopt;
    case 2: {
      const auto size = kube::TakeVarint(bytes);
      const auto content = size ? TakeBytes(bytes, *size) : std::nullopt;
      if (!content) return std::nullopt;
      field.bytes = *content;
      return field;
    }
    case 5:
      return TakeBytes(bytes, 4) ? std::optional(field) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// --- JSON: where the members of the outermost object begin and end ---

constexpr std::string_view kSpace = " \t\r\n";

void SkipSpace(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
}

bool TakeMark(std::string_view& text, char mark) {
  SkipSpace(text);
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(1);
  return true;
}

// Behind the closing quote of the string that begins at `at`.
size_t EndOfString(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '"') return at + 1;
    if (text[at] == '\\') ++at;
  }
  return std::string_view::npos;
}

// Strings with their quotes, objects and lists whole.
std::optional<std::string_view> TakeValue(std::string_view& text) {
  SkipSpace(text);
  size_t depth = 0, at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (depth == 0 && (c == ',' || c == '}' || c == ']' || c == ':')) break;
    if (c == '"') {
      at = EndOfString(text, at);
      if (at == std::string_view::npos) return std::nullopt;
    } else {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at;
    }
    if (depth == 0 && (c == '"' || c == '}' || c == ']')) break;
  }
  if (depth != 0 || at == 0) return std::nullopt;
  const std::string_view value = text.substr(0, at);
  text.remove_prefix(at);
  return value;
}

}  // namespace

Result<WatchFrame> ParseWatchEvent(std::string_view bytes) {
  constexpr uint64_t kType = 1, kObject = 2, kRaw = 1;
  WatchFrame frame;
  while (!bytes.empty()) {
    const auto field = TakeField(bytes);
    if (!field) return NoEvent("it does not parse");
    if (field->number == kType) frame.type = field->bytes;
    if (field->number != kObject) continue;
    for (std::string_view extension = field->bytes; !extension.empty();) {
      const auto raw = TakeField(extension);
      if (!raw) return NoEvent("its object does not parse");
      if (raw->number == kRaw) frame.object = raw->bytes;
    }
  }
  if (frame.type.empty()) return NoEvent("it has no type");
  return frame;
}

Result<WatchFrame> ParseWatchLine(std::string_view line) {
  WatchFrame frame;
  if (!TakeMark(line, '{')) return NoEvent("it is no JSON object");
  do {
    const auto name = TakeValue(line);
    if (!name || !TakeMark(line, ':')) return NoEvent("it is not JSON");
    const auto value = TakeValue(line);
    if (!value) return NoEvent("it is not JSON");
    if (*name == "\"object\"") frame.object = *value;
    if (*name == "\"type\"") {
      if (value->size() < 2 || value->front() != '"' || value->back() != '"') {
        return NoEvent("its type is no string");
      }
      frame.type = value->substr(1, value->size() - 2);
    }
  } while (TakeMark(line, ','));
  if (!TakeMark(line, '}')) return NoEvent("it is not JSON");
  SkipSpace(line);
  if (!line.empty()) return NoEvent("something follows it");
  if (frame.type.empty()) return NoEvent("it has no type");
  return frame;
}

void WatchFrames::Append(std::string_view bytes) {
  buffer_.erase(0, begin_);
  begin_ = 0;
  if (buffer_.empty() && buffer_.capacity() > kKeepCapacity) buffer_.shrink_to_fit();
  buffer_.append(bytes);
}

Result<std::optional<WatchFrame>> WatchFrames::Next() {
  ASSIGN_OR_RETURN(const auto cut, form_ == Form::kProtobuf ? CutProtobuf() : CutLine());
  if (!cut) return std::optional<WatchFrame>();
  ASSIGN_OR_RETURN(const WatchFrame frame,
                   form_ == Form::kProtobuf ? ParseWatchEvent(*cut) : ParseWatchLine(*cut));
  return std::optional(frame);
}

Result<std::optional<std::string_view>> WatchFrames::CutProtobuf() {
  const std::string_view rest = std::string_view(buffer_).substr(begin_);
  if (rest.size() < kLengthSize) return std::optional<std::string_view>();
  size_t length = 0;
  for (size_t i = 0; i < kLengthSize; ++i) length = length << 8 | static_cast<uint8_t>(rest[i]);
  if (length > largest_) {
    return Error(Code::kResourceExhausted,
                 StrCat("a watch event of ", length, " bytes, at most ", largest_, " are taken"));
  }
  if (rest.size() < kLengthSize + length) return std::optional<std::string_view>();
  begin_ += kLengthSize + length;
  return std::optional(rest.substr(kLengthSize, length));
}

Result<std::optional<std::string_view>> WatchFrames::CutLine() {
  const std::string_view rest = std::string_view(buffer_).substr(begin_);
  const size_t end = rest.find('\n', searched_);
  if (std::min(end, rest.size()) > largest_) {
    return Error(Code::kResourceExhausted,
                 StrCat("a watch event of more than ", largest_, " bytes"));
  }
  if (end == std::string_view::npos) {
    searched_ = rest.size();
    return std::optional<std::string_view>();
  }
  begin_ += end + 1;
  searched_ = 0;
  return std::optional(rest.substr(0, end));
}

}  // namespace holdfast::agent
