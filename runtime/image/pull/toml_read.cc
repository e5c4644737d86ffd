// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/toml_read.h"

#include "holdfast/base/strings.h"

namespace holdfast::runtime::toml_read {

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
  toml::parse_result parsed = toml::parse(text);
  if (parsed) return std::move(parsed).table();
  return InvalidArgument(StrCat("line ", parsed.error().source().begin.line, ": ",
                                std::string(parsed.error().description())));
}

}  // namespace holdfast::runtime::toml_read
