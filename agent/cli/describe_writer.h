// SPDX-License-Identifier: Apache-2.0
// DescribeWriter: indented lines of cells, laid out as kubectl's describe. A column is as wide as
// its widest cell and two spaces, among the lines that follow each other and have that column; so
// a line of one cell (a title) ends all columns. A line's last cell belongs to no column. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::agent::cli {

class DescribeWriter {
 public:
  // Control characters are made visible, a cell ends at its first line break.
  void Row(int level, std::vector<std::string> cells);

  // "Name:  value"; further lines of the value stand below its first.
  void Line(int level, const std::string& name, std::string_view value);

  // A title, or text outside of the columns, line by line.
  void Text(int level, std::string_view text);

  // The first entry beside the name, the others below it.
  void List(int level, const std::string& name, const std::vector<std::string>& values,
            std::string_view if_empty = "<none>");

  // No line ends in spaces.
  std::string Render() const;

 private:
  std::vector<std::vector<std::string>> lines_;
};

}  // namespace holdfast::agent::cli
