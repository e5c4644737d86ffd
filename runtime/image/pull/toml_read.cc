// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/toml_read.h"

#include "holdfast/base/strings.h"

namespace holdfast::runtime::toml_read {
namespace {

// toml++ 3.3 takes U+00A1 to U+0499, where it looks for white space, to be impossible, which is
// undefined behaviour. So beyond ASCII only comments are read, which it passes over: what follows a
// '#' on a line with no quotation mark before. 0: there is nothing else; otherwise the line.
size_t LineBeyondAscii(std::string_view text) {
  size_t line = 1;
  bool in_comment = false;
  bool quoted = false;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      in_comment = quoted = false;
    } else if (c == '"' || c == '\'') {
      quoted = true;
    } else if (c == '#') {
      in_comment = true;
    } else if (static_cast<unsigned char>(c) >= 0x80 && (quoted || !in_comment)) {
      return line;
    }
  }
  return 0;
}

}  // namespace

Error At(const toml::node& node, const std::string& message) {
  return InvalidArgument(StrCat("line ", node.source().begin.line, ": ", message));
}

Result<std::vector<std::string>> Strings(const toml::node& node, const std::string& key) {
  std::vector<std::string> out;
  if (const auto* text = node.as_string()) return std::vector{text->get()};
  const toml::array* list = node.as_array();
  if (list == nullptr) return At(node, key + ": expected a string or a list of strings");
  for (const toml::node& item : *list) {
    const auto* text = item.as_string();
    if (text == nullptr) return At(item, key + ": holds something that is not a string");
    out.push_back(text->get());
  }
  return out;
}

Result<toml::table> Parse(std::string_view text) {
  if (const size_t line = LineBeyondAscii(text); line != 0) {
    return InvalidArgument(StrCat("line ", line,
                                  ": characters beyond ASCII are read in comments "
                                  "without quotation marks only (in strings write \\u00e4)"));
  }
  toml::parse_result parsed = toml::parse(text);
  if (parsed) return std::move(parsed).table();
  return InvalidArgument(StrCat("line ", parsed.error().source().begin.line, ": ",
                                std::string(parsed.error().description())));
}

}  // namespace holdfast::runtime::toml_read
