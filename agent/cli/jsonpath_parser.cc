// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/jsonpath_parser.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "agent/kube/utf8.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/whole_number.h"

namespace holdfast::agent::cli {
namespace {

using Step = JsonPath::Step;
using Steps = std::vector<Step>;

constexpr int kDeepest = 16;  // ranges in each other; unions and filters in each other

bool EndsWord(char c) {
  return std::string_view(" \t\r\n.,[]$@{}").find(c) != std::string_view::npos;
}
// Of letters beyond ASCII every byte counts.
bool IsWordCharacter(char c) { return IsAlphanumeric(c) || c == '_' || (c & 0x80) != 0; }

// Go's %#U, for a character of ASCII.
std::string CodePoint(char c) {
  char text[16];
  (void)std::snprintf(text, sizeof text, "U+%04X", static_cast<unsigned>(c));
  return c > ' ' && c < 0x7F ? StrCat(text, " '", std::string(1, c), "'") : std::string(text);
}

std::optional<int64_t> ToInt(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return WholeNumber<int64_t>(text);
}

std::string Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

// --- quoted text --------------------------------------------------------------------------------

constexpr int DigitsAfter(char letter) {
  return letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
}

// What an escape stands for; `text` begins behind the backslash and is moved behind the escape.
std::optional<std::string> Unescape(std::string_view& text, char quote) {
  constexpr std::string_view kLetters = "abfnrtv\\";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\";
  if (text.empty()) return std::nullopt;
  const char letter = text.front();
  if (letter == quote || kLetters.find(letter) != std::string_view::npos) {
    text.remove_prefix(1);
    return std::string(1, letter == quote ? quote : kMeanings[kLetters.find(letter)]);
  }
  const bool octal = letter >= '0' && letter <= '7';
  if (!octal) text.remove_prefix(1);
  const auto digits = static_cast<size_t>(octal ? 3 : DigitsAfter(letter));
  const std::string_view number = text.substr(0, digits);
  uint32_t code = 0;
  const auto parsed =
      std::from_chars(number.data(), number.data() + number.size(), code, octal ? 8 : 16);
  if (digits == 0 || number.size() != digits || parsed.ptr != number.data() + digits) {
    return std::nullopt;
  }
  text.remove_prefix(digits);
  if (octal || letter == 'x') {
    return code <= 0xFF ? std::optional(std::string(1, static_cast<char>(code))) : std::nullopt;
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return std::nullopt;
  std::string out;
  kube::AppendUtf8(code, out);
  return out;
}

// `quoted` with its quotes.
Result<std::string> Unquote(std::string_view quoted) {
  const char quote = quoted.front();
  std::string out;
  for (std::string_view text = quoted.substr(1, quoted.size() - 2); !text.empty();) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c != '\\' && c != quote) {
      out.push_back(c);
      continue;
    }
    const auto meant = c == quote ? std::nullopt : Unescape(text, quote);
    if (!meant) return InvalidArgument(StrCat("unquote string ", quoted, " error invalid syntax"));
    out += *meant;
  }
  return out;
}

// --- the grammar --------------------------------------------------------------------------------

class JsonPathParser {
 public:
  JsonPathParser(std::string_view text, int depth) : text_(text), depth_(depth) {}

  // Text and pairs of braces, to the end.
  Result<std::vector<Steps>> Template() {
    std::vector<Steps> actions;
    while (at_ < text_.size()) {
      const size_t brace = std::min(text_.find('{', at_), text_.size());
      if (brace > at_) {
        actions.push_back({Text(std::string(text_.substr(at_, brace - at_)))});
        at_ = brace;
        continue;
      }
      ++at_;
      ASSIGN_OR_RETURN(Steps steps, Braces());
      actions.push_back(std::move(steps));
    }
    return actions;
  }

 private:
  static Step Text(std::string text) {
    return {.kind = Step::Kind::kText, .literal = kube::Node::String(std::move(text))};
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Sees(std::string_view token) const { return text_.substr(at_).starts_with(token); }

  // Steps written elsewhere, as if they stood in braces of their own.
  Result<Steps> Inner(std::string_view text) const {
    if (depth_ >= kDeepest) return InvalidArgument("too many brackets inside each other");
    const std::string braced = StrCat("{", text, "}");
    ASSIGN_OR_RETURN(std::vector<Steps> actions, JsonPathParser(braced, depth_ + 1).Template());
    return std::move(actions.front());
  }

  // Behind the '{', to behind the '}'.
  Result<Steps> Braces() {
    Steps steps;
    for (;;) {
      const char c = Peek();
      if (at_ >= text_.size() || c == '\r' || c == '\n') return InvalidArgument("unclosed action");
      if (c == '}') {
        ++at_;
        return steps;
      }
      if (c == ' ' || c == '@' || c == '$') {
        ++at_;
        continue;
      }
      RETURN_IF_ERROR(One(steps));
    }
  }

  Result<void> One(Steps& steps) {
    const char c = Peek();
    if (Sees("[?(")) return Filter(steps);
    if (Sees("..")) return Recursive(steps);
    if (c == '[') return Bracket(steps);
    if (c == '"' || c == '\'') return Quoted(steps);
    if (c == '.') {
      ++at_;
      Field(steps);
      return {};
    }
    if (c == '+' || c == '-' || IsDigit(c)) return Number(steps);
    if (!IsWordCharacter(c)) {
      return InvalidArgument(StrCat("unrecognized character in action: ", CodePoint(c)));
    }
    return Word(steps);
  }

  // Up to the end of a word; a backslash keeps what follows in it, and is never a part of it.
  void Field(Steps& steps) {
    const size_t begin = at_;
    while (at_ < text_.size() && !EndsWord(Peek())) {
      at_ = std::min(at_ + (Peek() == '\\' ? 2 : 1), text_.size());
    }
    std::string name(text_.substr(begin, at_ - begin));
    const bool all = name == "*";
    std::erase(name, '\\');
    steps.push_back({.kind = all ? Step::Kind::kAll : Step::Kind::kField, .name = std::move(name)});
  }

  Result<void> Recursive(Steps& steps) {
    if (!steps.empty() && steps.back().kind == Step::Kind::kRecursive) {
      return InvalidArgument("invalid multiple recursive descent");
    }
    at_ += 2;
    steps.push_back({.kind = Step::Kind::kRecursive});
    if (IsWordCharacter(Peek())) Field(steps);
    return {};
  }

  Result<void> Quoted(Steps& steps) {
    const char quote = Peek();
    const size_t begin = at_++;
    // A quote behind a backslash does not end it, whatever stands before that.
    while (at_ < text_.size() && Peek() != '\n' && (Peek() != quote || text_[at_ - 1] == '\\')) {
      ++at_;
    }
    if (Peek() != quote) return InvalidArgument("unterminated quoted string");
    ++at_;
    ASSIGN_OR_RETURN(std::string text, Unquote(text_.substr(begin, at_ - begin)));
    steps.push_back(Text(std::move(text)));
    return {};
  }

  Result<void> Number(Steps& steps) {
    const size_t begin = at_;
    if (!IsDigit(Peek())) ++at_;
    while (IsDigit(Peek()) || Peek() == '.') ++at_;
    const std::string text(text_.substr(begin, at_ - begin));
    kube::Node node;
    if (const auto whole = ToInt(text)) {
      node = kube::Node::Int(*whole);
    } else {
      const std::string_view digits = std::string_view(text).substr(text.starts_with('+') ? 1 : 0);
      double value = 0;
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) {
        return InvalidArgument(StrCat("cannot parse number ", text));
      }
      node.kind = kube::Node::Kind::kFloat;
      node.text = digits;
    }
    steps.push_back({.kind = Step::Kind::kLiteral, .literal = std::move(node)});
    return {};
  }

  Result<void> Word(Steps& steps) {
    std::string word;
    while (at_ < text_.size() && !EndsWord(Peek())) word.push_back(text_[at_++]);
    if (word == "true" || word == "false") {
      steps.push_back({.kind = Step::Kind::kLiteral, .literal = kube::Node::Bool(word == "true")});
      return {};
    }
    const auto kind = word == "range" ? Step::Kind::kRange
                      : word == "end" ? Step::Kind::kEnd
                                      : Step::Kind::kUnknownWord;
    if (kind == Step::Kind::kRange && ++ranges_ > kDeepest) {
      return InvalidArgument("too many ranges inside each other");
    }
    if (kind == Step::Kind::kEnd) ranges_ = std::max(ranges_ - 1, 0);
    steps.push_back({.kind = kind, .name = std::move(word)});
    return {};
  }

  Result<void> Bracket(Steps& steps) {
    const size_t begin = at_ + 1;
    const size_t end = text_.find_first_of("]\n", begin);
    if (end == std::string_view::npos || text_[end] == '\n') {
      return InvalidArgument("unterminated array");
    }
    at_ = end + 1;
    const std::string_view text = text_.substr(begin, end - begin);
    if (text.find(',') != std::string_view::npos) return Union(text, steps);
    const bool key = text.size() >= 2 && text.starts_with('\'') && text.ends_with('\'') &&
                     text.substr(1, text.size() - 2).find('\'') == std::string_view::npos;
    if (key) return Key(text.substr(1, text.size() - 2), steps);
    ASSIGN_OR_RETURN(Step::Slice slice, ReadSlice(text == "*" ? ":" : text));
    steps.push_back({.kind = Step::Kind::kItems, .slice = slice});
    return {};
  }

  Result<void> Union(std::string_view text, Steps& steps) const {
    Step several{.kind = Step::Kind::kUnion};
    for (;;) {
      const size_t comma = std::min(text.find(','), text.size());
      ASSIGN_OR_RETURN(Steps one, Inner(StrCat("[", Trimmed(text.substr(0, comma)), "]")));
      several.lists.push_back(std::move(one));
      if (comma == text.size()) break;
      text.remove_prefix(comma + 1);
    }
    steps.push_back(std::move(several));
    return {};
  }

  // A key's text is a path to kubectl. One whose dots may be its own is tried as a whole first.
  Result<void> Key(std::string_view text, Steps& steps) const {
    ASSIGN_OR_RETURN(Steps path, Inner(StrCat(".", text)));
    const bool fields = std::all_of(
        path.begin(), path.end(), [](const Step& step) { return step.kind == Step::Kind::kField; });
    if (path.size() < 2 || !fields) {
      steps.insert(steps.end(), path.begin(), path.end());
      return {};
    }
    Step key;
    for (const Step& step : path) key.name += StrCat(key.name.empty() ? "" : ".", step.name);
    key.lists.push_back(std::move(path));
    steps.push_back(std::move(key));
    return {};
  }

  // "1", "1:3", "::2"; "" is "0".
  static Result<Step::Slice> ReadSlice(std::string_view text) {
    std::vector<std::string_view> parts;
    for (std::string_view rest = text;;) {
      const size_t colon = std::min(rest.find(':'), rest.size());
      parts.push_back(rest.substr(0, colon));
      if (colon == rest.size()) break;
      rest.remove_prefix(colon + 1);
    }
    const bool numbers = std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
      if (part.starts_with('-')) part.remove_prefix(1);
      return std::all_of(part.begin(), part.end(), IsDigit);
    });
    if (!numbers || parts.size() > 3) return InvalidArgument(StrCat("invalid array index ", text));
    std::vector<std::optional<int64_t>> values;
    for (const std::string_view part : parts) {
      values.push_back(ToInt(part));
      if (!part.empty() && !values.back()) {
        return InvalidArgument(StrCat("array index ", part, " is not a number"));
      }
    }
    Step::Slice slice{.begin = values[0].value_or(0)};
    slice.one = values.size() == 1;
    if (values.size() > 1) slice.end = values[1];
    if (values.size() > 2) slice.stride = values[2];
    return slice;
  }

  // "[?(", a condition whose quotes are closed, ")]".
  Result<void> Filter(Steps& steps) {
    const size_t begin = at_ + 3;
    ASSIGN_OR_RETURN(const size_t end, EndOfCondition(begin));
    at_ = end + 2;
    const std::string_view text = text_.substr(begin, end - begin);
    constexpr std::string_view kOperators = "!<>=";
    size_t sign = std::min(text.find_first_of(kOperators), text.size());
    size_t right = std::min(text.find_first_not_of(kOperators, sign), text.size());
    if (right == text.size() && right > sign + 1) --right;  // something must be compared with
    Step filter{.kind = Step::Kind::kFilter};
    const bool compares = sign > 0 && right < text.size();
    ASSIGN_OR_RETURN(Steps left, Inner(compares ? text.substr(0, sign) : text));
    filter.lists.push_back(std::move(left));
    if (compares) {
      filter.name = text.substr(sign, right - sign);
      ASSIGN_OR_RETURN(Steps other, Inner(text.substr(right)));
      filter.lists.push_back(std::move(other));
    }
    steps.push_back(std::move(filter));
    return {};
  }

  // Where the ")]" is.
  Result<size_t> EndOfCondition(size_t at) const {
    bool begun = false, ended = false;
    char quote = 0;
    for (; at < text_.size() && text_[at] != '\n'; ++at) {
      const char c = text_[at];
      if ((c == '"' || c == '\'') && !begun) {
        begun = true;
        quote = c;
      } else if (c == quote && begun && text_[at - 1] != '\\') {
        ended = true;
      } else if (c == ')' && begun == ended) {
        if (text_.substr(at + 1).starts_with(']')) return at;
        return InvalidArgument("unclosed array expect ]");
      }
    }
    return InvalidArgument("unterminated filter");
  }

  const std::string_view text_;
  const int depth_;
  size_t at_ = 0;
  int ranges_ = 0;
};

}  // namespace

Result<std::vector<std::vector<Step>>> ParseJsonPath(std::string_view text) {
  return JsonPathParser(text, 0).Template();
}

}  // namespace holdfast::agent::cli
