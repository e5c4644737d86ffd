// SPDX-License-Identifier: Apache-2.0
// DescribeWriter: indented "Name:  value" lines whose values stand in one column per block. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/cli/table.h"

namespace holdfast::agent::cli {

class DescribeWriter {
 public:
  // At level 0 and 1 two spaces each, as kubectl.
  void Line(int level, std::string name, std::string_view value) {
    lines_.push_back({level, std::move(name), Visible(value)});
  }
  // A line of its own, outside the columns.
  void Text(int level, std::string_view text) { lines_.push_back({level, {}, Visible(text)}); }

  // The first entry beside the name, the others below it.
  void List(int level, const std::string& name, const std::vector<std::string>& values,
            std::string_view if_empty = "<none>") {
    if (values.empty()) return Line(level, name, if_empty);
    for (size_t i = 0; i < values.size(); ++i) Line(level, i == 0 ? name : " ", values[i]);
  }

  std::string Render() const {
    std::vector<size_t> widths;
    for (const Entry& line : lines_) {
      if (line.name.empty()) continue;
      const auto level = static_cast<size_t>(line.level);
      if (widths.size() <= level) widths.resize(level + 1, 0);
      widths[level] = std::max(widths[level], DisplayWidth(line.name) + 2);
    }
    std::string out;
    for (const Entry& line : lines_) {
      out.append(static_cast<size_t>(line.level) * 2, ' ');
      if (!line.name.empty()) {
        out += line.name;
        if (!line.value.empty()) {
          out.append(widths[static_cast<size_t>(line.level)] - DisplayWidth(line.name), ' ');
        }
      }
      out += line.value;
      out.push_back('\n');
    }
    return out;
  }

 private:
  struct Entry {
    int level;
    std::string name;
    std::string value;
  };
  std::vector<Entry> lines_;
};

}  // namespace holdfast::agent::cli
