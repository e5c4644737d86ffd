// SPDX-License-Identifier: Apache-2.0
// -o custom-columns, -L and --show-labels. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/cli/jsonpath.h"
#include "agent/cli/table.h"
#include "agent/kube/tree.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

// ".metadata.name", "metadata.name" or "{.metadata.name}", as custom columns and --sort-by take it,
// as "{.metadata.name}".
std::string RelaxedPath(std::string_view text);
// kInvalidArgument in kubectl's words.
Result<JsonPath> ParseRelaxedPath(std::string_view text);

class CustomColumns {
 public:
  // "NAME:.metadata.name,IP:.status.podIP". kInvalidArgument in kubectl's words.
  static Result<CustomColumns> Parse(const std::string& spec);
  // The same of a file: a line of headers, a line of paths, with spaces between them.
  static Result<CustomColumns> ParseTemplate(const std::string& text);

  const std::vector<std::string>& header() const { return header_; }
  // "<none>" where there is no such field; several values are joined by commas. Lists and maps are
  // as Go prints them: "[a b]", "map[a:b]".
  Result<std::vector<std::string>> Row(const kube::Node& object) const;

 private:
  struct Spec {
    std::string header, path;
  };
  static Result<CustomColumns> Make(const std::vector<Spec>& specs);

  std::vector<std::string> header_;
  std::vector<JsonPath> paths_;
};

// What -L and --show-labels add behind the other columns.
struct LabelColumns {
  std::vector<std::string> labels;
  bool all = false;

  void AddHeader(std::vector<std::string>& header) const;
  // A label that the object lacks gives an empty cell.
  template <class Map>
  void AddCells(const Map& labels_of_object, std::vector<std::string>& row) const {
    for (const std::string& label : labels) {
      const auto found = labels_of_object.find(label);
      row.push_back(found == labels_of_object.end() ? "" : found->second);
    }
    if (all) row.push_back(Joined({labels_of_object.begin(), labels_of_object.end()}));
  }

 private:
  static std::string Joined(std::vector<std::pair<std::string, std::string>> labels);
};

// Splits "a,b"; nothing for "".
std::vector<std::string> SplitCommas(const std::string& text);

}  // namespace holdfast::agent::cli
