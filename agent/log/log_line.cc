// SPDX-License-Identifier: Apache-2.0
#include "agent/log/log_line.h"

#include <utility>

#include "agent/base/log_time.h"

namespace holdfast::agent {
namespace {

std::string_view TakeWord(std::string_view& rest) {
  const size_t space = rest.find(' ');
  const std::string_view word = rest.substr(0, space);
  rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
  return word;
}

}  // namespace

std::optional<CriLine> ParseCriLine(std::string_view line) {
  const auto time = ParseLogTime(TakeWord(line));
  const std::string_view stream = TakeWord(line);
  // Tags are joined by ':'; only the first is defined.
  std::string_view tag = TakeWord(line);
  tag = tag.substr(0, tag.find(':'));
  if (!time || (stream != "stdout" && stream != "stderr") || (tag != "P" && tag != "F")) {
    return std::nullopt;
  }
  return CriLine{.time = *time,
                 .stream = stream == "stdout" ? LogStreamKind::kStdout : LogStreamKind::kStderr,
                 .partial = tag == "P",
                 .text = line};
}

void LineJoiner::Add(const CriLine& line, std::vector<ShownLine>& out) {
  Pending& pending = pending_[static_cast<size_t>(line.stream)];
  if (!pending.open) {
    pending.line =
        ShownLine{.time = line.time, .stream = line.stream, .text = {}, .partial = false};
  }
  pending.line.text.append(line.text);
  pending.open = line.partial;
  if (!line.partial) {
    out.push_back(std::move(pending.line));
  } else if (pending.line.text.size() >= kMaxJoined) {
    pending.line.partial = true;
    out.push_back(std::move(pending.line));
    pending.line =
        ShownLine{.time = line.time, .stream = line.stream, .text = {}, .partial = false};
  }
}

void LineJoiner::Flush(std::vector<ShownLine>& out) {
  for (Pending& pending : pending_) {
    if (!pending.open) continue;
    pending.open = false;
    pending.line.partial = true;  // no newline was written
    out.push_back(std::move(pending.line));
  }
}

}  // namespace holdfast::agent
