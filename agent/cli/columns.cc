// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/columns.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "agent/cli/go_text.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {

namespace {

std::vector<std::string> SplitWords(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

Result<void> CheckRelaxedPath(std::string_view text) {
  const std::string path = RelaxedPath(text);
  if (path.size() <= 2 || path.find_first_of("{}", 1) + 1 == path.size()) return {};
  return InvalidArgument(
      "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or "
      "'{.name1.name2}'");
}

}  // namespace

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

std::string RelaxedPath(std::string_view text) {
  if (text.empty()) return "";
  const bool braces = text.size() > 2 && text.starts_with('{') && text.ends_with('}');
  std::string_view inner = braces ? text.substr(1, text.size() - 2) : text;
  if (inner.size() > 1 && inner.starts_with('.')) inner.remove_prefix(1);
  return StrCat("{.", inner, "}");
}

Result<JsonPath> ParseRelaxedPath(std::string_view text) {
  RETURN_IF_ERROR(CheckRelaxedPath(text));
  return JsonPath::Parse(RelaxedPath(text));
}

// Of paths that look right: as kubectl, what looks wrong in any column is told first.
Result<CustomColumns> CustomColumns::Make(const std::vector<Spec>& specs) {
  CustomColumns columns;
  for (const Spec& spec : specs) {
    ASSIGN_OR_RETURN(JsonPath path, JsonPath::Parse(RelaxedPath(spec.path)));
    columns.header_.push_back(spec.header);
    columns.paths_.push_back(std::move(path));
  }
  return columns;
}

Result<CustomColumns> CustomColumns::Parse(const std::string& spec) {
  if (spec.empty()) {
    return InvalidArgument("custom-columns format specified but no custom columns given");
  }
  std::vector<Spec> specs;
  std::vector<std::string> parts = SplitCommas(spec);
  if (spec.ends_with(',')) parts.emplace_back();
  for (const std::string& part : parts) {
    const size_t colon = part.find(':');
    if (colon == std::string::npos) {
      return InvalidArgument(
          StrCat("unexpected custom-columns spec: ", part, ", expected <header>:<json-path-expr>"));
    }
    specs.push_back({part.substr(0, colon), part.substr(colon + 1)});
    RETURN_IF_ERROR(CheckRelaxedPath(specs.back().path));
  }
  return Make(specs);
}

Result<CustomColumns> CustomColumns::ParseTemplate(const std::string& text) {
  constexpr char kForm[] =
      "Expected format is one line of space separated headers, one line of space separated "
      "column specs.";
  std::istringstream lines(text);
  std::string headers_line, paths_line;
  if (!std::getline(lines, headers_line)) {
    return InvalidArgument(StrCat("invalid template, missing header line. ", kForm));
  }
  if (!std::getline(lines, paths_line)) {
    return InvalidArgument(StrCat("invalid template, missing spec line. ", kForm));
  }
  const std::vector<std::string> headers = SplitWords(headers_line), paths = SplitWords(paths_line);
  if (headers.size() != paths.size()) {
    return InvalidArgument(StrCat("number of headers (", headers.size(),
                                  ") and field specifications (", paths.size(), ") don't match"));
  }
  std::vector<Spec> specs;
  for (size_t i = 0; i < headers.size(); ++i) {
    RETURN_IF_ERROR(CheckRelaxedPath(paths[i]));
    specs.push_back({headers[i], paths[i]});
  }
  return Make(specs);
}

Result<std::vector<std::string>> CustomColumns::Row(const kube::Node& object) const {
  std::vector<std::string> row;
  for (const JsonPath& path : paths_) {
    ASSIGN_OR_RETURN(const auto parts, path.Values(object));
    const bool none = parts.empty() || parts.front().empty();
    std::string cell = none ? "<none>" : "";
    for (size_t i = 0; !none && i < parts.front().size(); ++i) {
      cell += StrCat(i == 0 ? "" : ",", GoText(parts.front()[i]));
    }
    row.push_back(std::move(cell));
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
