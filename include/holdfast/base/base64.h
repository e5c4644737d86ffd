// SPDX-License-Identifier: Apache-2.0
// Base 64 with the standard alphabet and padding (RFC 4648 section 4). Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

inline constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

inline std::string EncodeBase64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    const size_t known = bytes.size() - i;
    for (size_t k = 0; k < 4; ++k) {
      out += k <= known ? kBase64Digits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

// Line ends are skipped; absent when anything else is not of the alphabet or the padding is wrong.
inline std::optional<std::string> DecodeBase64(std::string_view text) {
  std::string out;
  uint32_t group = 0;
  size_t digits = 0;
  size_t padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') continue;
    const size_t value = kBase64Digits.find(c);
    if (c == '=') {
      ++padding;
    } else if (value == std::string_view::npos || padding > 0) {
      return std::nullopt;
    }
    group = group << 6 | static_cast<uint32_t>(c == '=' ? 0 : value);
    if (++digits % 4 != 0) continue;
    if (padding > 2) return std::nullopt;
    for (size_t k = 0; k < 3 - padding; ++k) out += static_cast<char>(group >> (16 - 8 * k) & 255);
    group = 0;
  }
  if (digits % 4 != 0 || padding > 2) return std::nullopt;
  return out;
}

}  // namespace holdfast
