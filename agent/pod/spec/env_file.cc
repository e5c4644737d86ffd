// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/env_file.h"

#include <optional>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr size_t kLongestLine = 64 << 10;

class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}

  // Without its end, and without the carriage return before that; absent after the last one.
  std::optional<std::string_view> Next() {
    if (rest_.empty()) return std::nullopt;
    ++number_;
    const size_t end = rest_.find('\n');
    std::string_view line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? "" : rest_.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    too_long_ = too_long_ || line.size() >= kLongestLine;
    return line;
  }
  size_t number() const { return number_; }
  bool too_long() const { return too_long_; }

 private:
  std::string_view rest_;
  size_t number_ = 0;
  bool too_long_ = false;
};

std::string_view WithoutLeadingBlanks(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos ? "" : text.substr(first);
}

Error Wrong(size_t line, const char* what) {
  return InvalidArgument(StrCat("invalid environment variable format at line ", line, ": ", what));
}

// What follows the first quote, to the second one, which may be lines away.
Result<std::string> QuotedValue(std::string_view rest, LineReader& lines) {
  const size_t begun = lines.number();
  std::string value;
  size_t end = rest.find('\'');
  while (end == std::string_view::npos) {
    value.append(rest).push_back('\n');
    const auto line = lines.Next();
    if (!line) {
      return InvalidArgument(StrCat("invalid environment variable format starting at line ", begun,
                                    ": unclosed single quote"));
    }
    rest = *line;
    end = rest.find('\'');
  }
  value.append(rest.substr(0, end));
  const std::string_view after = WithoutLeadingBlanks(rest.substr(end + 1));
  if (!after.empty() && after.front() != '#') {
    return Wrong(lines.number(), "unexpected content after closing quote");
  }
  return value;
}

}  // namespace

Result<std::string> ValueInEnvFile(std::string_view text, std::string_view name) {
  LineReader lines(text);
  while (const auto raw = lines.Next()) {
    if (lines.too_long()) return Wrong(lines.number(), "more than 64 KiB");
    const std::string_view line = WithoutLeadingBlanks(*raw);
    if (line.empty() || line.front() == '#') continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return Wrong(lines.number(), "missing '='");
    const std::string_view found = line.substr(0, equals);
    if (WithoutLeadingBlanks(found).empty()) return Wrong(lines.number(), "empty variable name");
    if (kBlanks.contains(found.back())) {
      return Wrong(lines.number(), "whitespace before '=' is not allowed");
    }
    const std::string_view rest = line.substr(equals + 1);
    // As in a shell: what follows a blank is not the value.
    if (!rest.empty() && kBlanks.contains(rest.front())) {
      if (found == name) return std::string();
      continue;
    }
    if (!rest.starts_with('\'')) {
      return Wrong(lines.number(), "value must be enclosed in single quotes");
    }
    ASSIGN_OR_RETURN(std::string value, QuotedValue(rest.substr(1), lines));
    if (lines.too_long()) return Wrong(lines.number(), "more than 64 KiB");
    if (found == name) return value;
  }
  return std::string();
}

}  // namespace holdfast::agent
