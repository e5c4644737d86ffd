// SPDX-License-Identifier: Apache-2.0
// Percent-encoding of URIs (RFC 3986 section 2.1): one byte at a time, since what a broken one means is each format's own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

// -1: no hexadecimal digit.
constexpr int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// What "%2f" at that place stands for; absent when there is something else.
constexpr std::optional<char> PercentByte(std::string_view text, size_t at) {
  if (at + 2 >= text.size() || text[at] != '%') return std::nullopt;
  const int high = HexValue(text[at + 1]);
  const int low = HexValue(text[at + 2]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

// What is no such byte stands for itself.
inline std::string PercentDecoded(std::string_view text, bool plus_is_space = false) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::optional<char> byte = PercentByte(text, i);
    out.push_back(byte ? *byte : plus_is_space && text[i] == '+' ? ' ' : text[i]);
    if (byte) i += 2;
  }
  return out;
}

}  // namespace holdfast
