// SPDX-License-Identifier: Apache-2.0
// WatchFrames: cuts the body of a watch into events, in place. Protobuf: a length of four bytes, then a WatchEvent
// without magic; JSON: one document per line. The sender is not trusted: a length is a claim. Single-thread. Source:
// control-plane.md section 3.6.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::agent {

struct WatchFrame {
  std::string_view type;    // "ADDED", …
  std::string_view object;  // in its envelope, or JSON
};

class WatchFrames {
 public:
  enum class Form : uint8_t { kProtobuf, kJson };
  static constexpr size_t kLargestFrame = 16 << 20;

  explicit WatchFrames(Form form, size_t largest = kLargestFrame)
      : form_(form), largest_(largest) {}

  void Append(std::string_view bytes);
  // The next one, absent until more bytes come. What it shows lives until the next call here.
  // kResourceExhausted for a frame that is too large, kInvalidArgument for one that is no event; nothing follows then.
  Result<std::optional<WatchFrame>> Next();
  // Bytes that are in no frame that Next() gave.
  size_t pending() const { return buffer_.size() - begin_; }

 private:
  Result<std::optional<std::string_view>> CutProtobuf();
  Result<std::optional<std::string_view>> CutLine();

  const Form form_;
  const size_t largest_;
  std::string buffer_;
  size_t begin_ = 0;     // of what was not given yet
  size_t searched_ = 0;  // from there without a newline
};

// Pure; kInvalidArgument.
Result<WatchFrame> ParseWatchEvent(std::string_view bytes);
Result<WatchFrame> ParseWatchLine(std::string_view line);

}  // namespace holdfast::agent
