// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/documents/json_text.h"

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

// Length of the well-formed UTF-8 sequence at the front (RFC 3629), 0 if there is none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto tail = [&](size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  const unsigned char b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xc2 && b <= 0xdf) return tail(1) ? 2 : 0;
  if (b >= 0xe0 && b <= 0xef) {
    if (!tail(1) || !tail(2)) return 0;
    if (b == 0xe0 && byte(1) < 0xa0) return 0;  // overlong
    if (b == 0xed && byte(1) > 0x9f) return 0;  // surrogate
    return 3;
  }
  if (b >= 0xf0 && b <= 0xf4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (b == 0xf0 && byte(1) < 0x90) return 0;
    if (b == 0xf4 && byte(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

void AppendEscaped(std::string& out, char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (c == '"' || c == '\\') {
    out.append({'\\', c});
  } else if (byte < 0x20) {
    out.append({'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]});
  } else {
    out.push_back(c);
  }
}

template <class Container, class Write>
std::string Join(char open, char close, const Container& items, Write write) {
  std::string out(1, open);
  for (const auto& item : items) {
    if (out.size() > 1) out.push_back(',');
    out += write(item);
  }
  out.push_back(close);
  return out;
}

}  // namespace

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (length == 1) {
      AppendEscaped(out, text[0]);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out.push_back('"');
  return out;
}

std::string JsonArray(const std::vector<std::string>& strings) {
  return Join('[', ']', strings, [](const std::string& s) { return JsonString(s); });
}

std::string JsonObject(const std::map<std::string, std::string>& strings) {
  return Join('{', '}', strings, [](const auto& pair) {
    return StrCat(JsonString(pair.first), ":", JsonString(pair.second));
  });
}

std::string JsonSet(const std::vector<std::string>& keys) {
  return Join('{', '}', keys, [](const std::string& key) { return JsonString(key) + ":{}"; });
}

}  // namespace holdfast::runtime
