// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/parse.h"

#include <utility>

#include "agent/kube/utf8.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// C0 without tab and line ends, DEL, and C1 without NEL (U+0080 to U+009F are C2 80 to C2 9F).
bool IsControl(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) {
    return (first < 0x20 && first != '\t' && first != '\n' && first != '\r') || first == 0x7F;
  }
  const auto second = static_cast<unsigned char>(sequence[1]);
  return first == 0xC2 && second < 0xA0 && second != 0x85;
}

}  // namespace

std::vector<ParseError> CheckText(std::string_view text, const ParseLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return {{{1, 1}, "", StrCat("larger than ", limits.max_bytes, " bytes")}};
  }
  Position at{1, 1};
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) return {{at, "", "not UTF-8"}};
    if (text[0] == '\0') return {{at, "", "NUL is not allowed"}};
    if (IsControl(text.substr(0, length))) return {{at, "", "control character is not allowed"}};
    ++at.column;
    if (text[0] == '\n') at = {at.line + 1, 1};
    text.remove_prefix(length);
  }
  return {};
}

ParsedText ParseYamlOrJson(std::string_view text, const ParseLimits& limits) {
  if (auto errors = CheckText(text, limits); !errors.empty()) return {{}, std::move(errors)};
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && text[first] == '{';
  return json ? ParseJson(text, limits) : ParseYaml(text, limits);
}

}  // namespace holdfast::agent::kube
