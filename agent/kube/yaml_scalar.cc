// SPDX-License-Identifier: Apache-2.0
// Plain scalars: the words and number forms of YAML 1.1 that Kubernetes' parser knows. Octal
// (0644, 0o644), hexadecimal, binary and underscores are numbers; base 60 and dates are strings.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "agent/kube/tree_builder.h"
#include "holdfast/base/ascii.h"

namespace holdfast::agent::kube {
namespace {

constexpr std::array<std::string_view, 11> kTrue = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                                    "True", "TRUE", "on",  "On",  "ON"};
constexpr std::array<std::string_view, 11> kFalse = {"n",     "N",     "no",  "No",  "NO", "false",
                                                     "False", "FALSE", "off", "Off", "OFF"};
constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
constexpr std::array<std::string_view, 3> kNan = {".nan", ".NaN", ".NAN"};
constexpr std::array<std::string_view, 3> kInfinity = {".inf", ".Inf", ".INF"};

template <class Words>
bool IsOneOf(const Words& words, std::string_view text) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

size_t SkipDigits(std::string_view text, size_t from) {
  while (from < text.size() && IsDigit(text[from])) ++from;
  return from;
}

// [-+]? ( .digits | digits [ . [digits] ] ) [ e [-+]? digits ]
bool LooksDecimal(std::string_view text, bool* whole) {
  size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const size_t first = at;
  at = SkipDigits(text, at);
  size_t digits = at - first;
  *whole = true;
  if (at < text.size() && text[at] == '.') {
    *whole = false;
    const size_t fraction = at + 1;
    at = SkipDigits(text, fraction);
    if (digits == 0 && at == fraction) return false;
    digits += at - fraction;
  }
  if (digits == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    *whole = false;
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const size_t exponent = at;
    at = SkipDigits(text, at);
    if (at == exponent) return false;
  }
  return at == text.size();
}

// 0x1F, 0b101, 0o17 and 017, with a sign. False when it is none of them or exceeds 64 bits.
bool ParsePrefixed(std::string_view text, std::string* decimal) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() < 2 || text[0] != '0') return false;
  const char letter = static_cast<char>(text[1] | 0x20);
  const int base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
  text.remove_prefix(base != 8 || letter == 'o' ? 2 : 1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  *decimal = (negative && value != 0 ? "-" : "") + std::to_string(value);
  return true;
}

// Without plus sign, leading zeros and "-0".
std::string NormalizeDigits(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const size_t first = std::min(text.find_first_not_of('0'), text.size() - 1);
  text.remove_prefix(first);
  return (negative && text != "0" ? "-" : "") + std::string(text);
}

// Kubernetes turns YAML into JSON by way of a double, so that "80.0" and "8e1" are the whole
// number 80. False for what no double holds; that stays a string.
bool ResolveFloat(std::string_view text, Node* node) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const double magnitude = std::abs(value);
  // Too small for a double is 0; too large is none.
  if (error == std::errc::result_out_of_range && text.find('-', 1) == std::string_view::npos)
    return false;
  if (end != text.data() + text.size() || !std::isfinite(value)) return false;
  const bool plain = value == 0 || (magnitude >= 1e-6 && magnitude < 1e21);
  std::array<char, 64> out{};
  const auto written =
      std::to_chars(out.data(), out.data() + out.size(), value,
                    plain ? std::chars_format::fixed : std::chars_format::scientific);
  node->text.assign(out.data(), written.ptr);
  if (node->text == "-0") node->text = "0";
  const bool whole = node->text.find_first_of(".e") == std::string::npos;
  node->kind = whole ? Node::Kind::kInt : Node::Kind::kFloat;
  return true;
}

bool ResolveNumber(std::string_view text, Node* node) {
  if (text.empty() || (!IsDigit(text[0]) && text[0] != '-' && text[0] != '+' && text[0] != '.')) {
    return false;
  }
  std::string plain(text);
  if (text[0] != '.') std::erase(plain, '_');
  bool whole = false;
  if (ParsePrefixed(plain, &node->text)) {
    node->kind = Node::Kind::kInt;
    return true;
  }
  if (!LooksDecimal(plain, &whole)) return false;
  if (!whole) return ResolveFloat(plain, node);
  node->kind = Node::Kind::kInt;
  node->text = NormalizeDigits(plain);
  return true;
}

bool ResolveSpecialFloat(std::string_view text, Node* node) {
  const bool negative = text.starts_with('-');
  const std::string_view body = negative || text.starts_with('+') ? text.substr(1) : text;
  if (IsOneOf(kNan, text)) {
    node->text = ".nan";
  } else if (IsOneOf(kInfinity, body)) {
    node->text = negative ? "-.inf" : ".inf";
  } else {
    return false;
  }
  node->kind = Node::Kind::kFloat;
  return true;
}

// [-+]? digits[digits_]* ( : [0-5]?digit )+ [ . digits ]: YAML 1.1 readers other than ours take
// such a string for a number, so it is printed in quotes.
bool LooksBase60(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  size_t at = text.find(':');
  if (at == 0 || at == std::string_view::npos || !IsDigit(text[0])) return false;
  const auto digit_or_mark = [](char c) { return IsDigit(c) || c == '_'; };
  if (!std::all_of(text.begin(), text.begin() + static_cast<long>(at), digit_or_mark)) return false;
  while (at < text.size() && text[at] == ':') {
    const size_t end = SkipDigits(text, at + 1);
    if (end == at + 1 || end > at + 3 || (end == at + 3 && text[at + 1] > '5')) return false;
    at = end;
  }
  if (at < text.size() && text[at] == '.') at = SkipDigits(text, at + 1);
  return at == text.size();
}

// YYYY-M-D, optionally followed by a time: also a type of its own in YAML 1.1.
bool LooksLikeDate(std::string_view text) {
  if (text.size() < 8 || SkipDigits(text, 0) != 4 || text[4] != '-') return false;
  const size_t month = SkipDigits(text, 5);
  if (month == 5 || month > 7 || month >= text.size() || text[month] != '-') return false;
  const size_t day = SkipDigits(text, month + 1);
  if (day == month + 1 || day > month + 3) return false;
  return day == text.size() || text[day] == 'T' || text[day] == 't' || text[day] == ' ';
}

}  // namespace

Node ResolvePlainScalar(std::string_view text) {
  Node node;
  if (IsOneOf(kNull, text)) return node;
  if (IsOneOf(kTrue, text)) return Node::Bool(true);
  if (IsOneOf(kFalse, text)) return Node::Bool(false);
  if (ResolveNumber(text, &node) || ResolveSpecialFloat(text, &node)) return node;
  return Node::String(std::string(text));
}

bool NeedsQuotes(std::string_view text) {
  return text == "<<" || text == "=" || ResolvePlainScalar(text).kind != Node::Kind::kString ||
         LooksBase60(text) || LooksLikeDate(text);
}

}  // namespace holdfast::agent::kube
