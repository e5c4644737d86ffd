// SPDX-License-Identifier: Apache-2.0
// Printable: text of others (images, manifests, containers, kernels) made safe for a terminal and
// for a log of one line per message. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {
namespace printable_internal {

// The length of the UTF-8 character that `text` begins with, 0 when it begins with none (RFC 3629:
// no overlong forms, no surrogates, nothing above U+10FFFF).
inline size_t CharacterLength(std::string_view text) {
  const auto byte = [text](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&byte](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) > 0x9F) return 0;
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) > 0x8F) return 0;
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

// Marks that change the order in which a terminal shows what follows, and Unicode's own line ends:
// what is read would not be what is there. The character's number, 0 when it is none of them.
inline unsigned HiddenMark(std::string_view character) {
  const auto byte = [character](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2) return byte(0) == 0xD8 && byte(1) == 0x9C ? 0x061C : 0;
  if (character.size() != 3 || byte(0) != 0xE2 || byte(1) < 0x80 || byte(1) > 0x81) return 0;
  const unsigned code = 0x2000 | (byte(1) & 0x3Fu) << 6u | (byte(2) & 0x3Fu);
  const bool mark = code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
                    (code >= 0x2066 && code <= 0x2069);
  return mark ? code : 0;
}

inline void AppendHex(unsigned byte, std::string_view prefix, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += prefix;
  out.push_back(kDigits[byte >> 4u & 0xFu]);
  out.push_back(kDigits[byte & 0xFu]);
}

}  // namespace printable_internal

enum class Lines : uint8_t { kOne, kMany };

// C0 control characters but the tab, and DEL, as "\n", "\r" or "\x1b"; C1, marks of direction and
// Unicode's line ends as "\u009b" and "\u202e"; bytes that are no UTF-8 as "\xff"; everything else
// as it is. Lines::kMany leaves newlines alone.
inline std::string Printable(std::string_view text, Lines lines = Lines::kOne) {
  using namespace printable_internal;
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const size_t length = CharacterLength(text);
    const bool kept_newline = first == '\n' && lines == Lines::kMany;
    if (length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0) {
      AppendHex(static_cast<unsigned char>(text[1]), "\\u00", out);
    } else if (const unsigned mark = HiddenMark(text.substr(0, length)); mark != 0) {
      AppendHex(mark >> 8u, "\\u", out);
      AppendHex(mark & 0xFFu, "", out);
    } else if (length > 1 || first == '\t' || kept_newline) {
      out += text.substr(0, length);
    } else if (first == '\n') {
      out += "\\n";
    } else if (first == '\r') {
      out += "\\r";
    } else if (length == 0 || first < 0x20 || first == 0x7F) {
      AppendHex(first, "\\x", out);
    } else {
      out.push_back(text[0]);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace holdfast
