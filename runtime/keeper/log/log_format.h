// SPDX-License-Identifier: Apache-2.0
// The CRI log format: "<RFC3339Nano> stdout|stderr P|F <text>\n". Pure.
// A line longer than 16384 bytes becomes entries of 16384 bytes tagged P and a last one tagged F,
// as containerd splits it. Formatting depends on the bytes, the stream and the time only, so
// recovery makes the same bytes again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/base/clock.h"

namespace holdfast::runtime::keeper {

enum class LogStream : uint8_t { kStdout = 0, kStderr = 1 };

inline constexpr size_t kMaxEntryText = 16384;
// Longest formatted entry: time, stream, tag, text, newline.
inline constexpr size_t kMaxEntryBytes = 40 + kMaxEntryText + 1;

// "2006-01-02T15:04:05.000000000Z", always 30 characters: nine digits, UTC.
std::string FormatTime(WallTime time);
// "20060102-150405", UTC: the suffix of rotated files.
std::string FormatRotationTime(WallTime time);

struct Formatted {
  size_t consumed = 0;  // bytes of `text` that became entries
  size_t produced = 0;  // bytes in `out`
  bool full = false;    // stopped because the next entry does not fit into `out`
};

// Formats the entries at the beginning of `text` into `out`. What is left over is the beginning of
// an entry that is not finished yet; with `at_end` it is an entry of its own, tagged P.
Formatted FormatEntries(std::string_view text, LogStream stream, WallTime time, bool at_end,
                        std::span<char> out);

}  // namespace holdfast::runtime::keeper
