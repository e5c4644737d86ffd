// SPDX-License-Identifier: Apache-2.0
// One line of a CRI log file: "<RFC3339Nano> <stdout|stderr> <P|F> <text>\n". Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/clock.h"

namespace holdfast::agent {

enum class LogStreamKind : uint8_t { kStdout, kStderr };

struct CriLine {
  WallTime time;
  LogStreamKind stream = LogStreamKind::kStdout;
  bool partial = false;   // tag P: the line goes on in this stream's next entry
  std::string_view text;  // without the newline; refers to the input
};

// `line` without its newline. nullopt: not a CRI line (such lines are passed over).
std::optional<CriLine> ParseCriLine(std::string_view line);

// A line as it is shown.
struct ShownLine {
  WallTime time;  // of its first part
  LogStreamKind stream = LogStreamKind::kStdout;
  std::string text;
  bool partial = false;  // more of the same line follows
};

// Joins the partial entries of each stream into lines. Holds at most kMaxJoined bytes per stream:
// a longer line leaves in pieces.
class LineJoiner {
 public:
  static constexpr size_t kMaxJoined = 64 * 1024;

  // Appends what is complete to `out`.
  void Add(const CriLine& line, std::vector<ShownLine>& out);
  // What is left at the end of a container's log: its last line had no newline.
  void Flush(std::vector<ShownLine>& out);

 private:
  struct Pending {
    bool open = false;
    ShownLine line;
  };
  Pending pending_[2];
};

}  // namespace holdfast::agent
