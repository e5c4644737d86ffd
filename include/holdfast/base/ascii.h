// SPDX-License-Identifier: Apache-2.0
// Kinds of characters in formats that are ASCII. The C library's functions ask the locale, and do not
// take a negative char.
#pragma once

#include <string>
#include <string_view>

namespace holdfast {

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool IsLowerOrDigit(char c) { return IsLower(c) || IsDigit(c); }
constexpr bool IsAlphanumeric(char c) { return IsLowerOrDigit(c) || IsUpper(c); }

constexpr char ToLower(char c) { return IsUpper(c) ? static_cast<char>(c + ('a' - 'A')) : c; }
inline std::string ToLower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = ToLower(c);
  return out;
}

}  // namespace holdfast
