// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/diagnostic.h"

#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {

std::string Diagnostic::ToString() const {
  std::string out = file;
  if (at.line != 0) out = StrCat(out, ":", at.line, ":", at.column);
  if (!out.empty()) out += ": ";
  if (!path.empty()) out += path + ": ";
  return Printable(out + message);
}

std::string ToString(const std::vector<Diagnostic>& diagnostics) {
  std::string out;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!out.empty()) out += '\n';
    out += diagnostic.ToString();
  }
  return out;
}

std::string Quoted(std::string_view text, size_t limit) {
  const bool cut = text.size() > limit;
  if (cut) {
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
    text = text.substr(0, limit);
  }
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      static constexpr char kHex[] = "0123456789abcdef";
      out += StrCat("\\x", kHex[byte >> 4], kHex[byte & 15]);
    } else {
      out += c;
    }
  }
  return out + (cut ? "…\"" : "\"");
}

}  // namespace holdfast::agent::kube
