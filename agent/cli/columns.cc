// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/columns.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {

std::vector<std::string> SplitCommas(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<JsonPath> ParseRelaxedPath(std::string_view text) {
  const bool braces = text.starts_with('{') && text.ends_with('}');
  std::string_view inner = braces ? text.substr(1, text.size() - 2) : text;
  if (inner.starts_with('.')) inner.remove_prefix(1);
  if (inner.empty() || inner.find_first_of("{}") != std::string_view::npos) {
    return InvalidArgument(StrCat("unexpected path string \"", text,
                                  "\", expected a 'name1.name2' or '.name1.name2' or "
                                  "'{name1.name2}' or '{.name1.name2}'"));
  }
  return JsonPath::Parse(StrCat("{", inner.starts_with('[') ? "" : ".", inner, "}"));
}

Result<CustomColumns> CustomColumns::Parse(const std::string& spec) {
  if (spec.empty()) {
    return InvalidArgument("custom-columns format specified but no custom columns given");
  }
  CustomColumns columns;
  for (const std::string& part : SplitCommas(spec)) {
    const size_t colon = part.find(':');
    if (colon == std::string::npos) {
      return InvalidArgument(
          StrCat("unexpected custom-columns spec: ", part, ", expected <header>:<json-path-expr>"));
    }
    ASSIGN_OR_RETURN(JsonPath path, ParseRelaxedPath(std::string_view(part).substr(colon + 1)));
    columns.header_.push_back(part.substr(0, colon));
    columns.paths_.push_back(std::move(path));
  }
  return columns;
}

Result<std::vector<std::string>> CustomColumns::Row(const kube::Node& object) const {
  std::vector<std::string> row;
  for (const JsonPath& path : paths_) {
    ASSIGN_OR_RETURN(const std::vector<std::string> values, path.Values(object));
    std::string cell;
    for (const std::string& value : values) cell += (&value == values.data() ? "" : ",") + value;
    row.push_back(values.empty() ? "<none>" : std::move(cell));
  }
  return row;
}

void LabelColumns::AddHeader(std::vector<std::string>& header) const {
  for (const std::string& label : labels) {
    std::string title = label.substr(label.rfind('/') + 1);  // npos + 1 is 0
    std::transform(title.begin(), title.end(), title.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    header.push_back(std::move(title));
  }
  if (all) header.emplace_back("LABELS");
}

std::string LabelColumns::Joined(std::vector<std::pair<std::string, std::string>> labels) {
  std::sort(labels.begin(), labels.end());
  std::string text;
  for (const auto& [key, value] : labels) {
    text += StrCat(text.empty() ? "" : ",", key, "=", value);
  }
  return text.empty() ? "<none>" : text;
}

}  // namespace holdfast::agent::cli
