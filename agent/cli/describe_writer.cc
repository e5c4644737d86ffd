// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/describe_writer.h"

#include <algorithm>
#include <utility>

#include "agent/cli/table.h"

namespace holdfast::agent::cli {
namespace {

constexpr size_t kGap = 2;

using Rows = std::vector<std::vector<std::string>>;

// At least one; the last one's end adds none.
std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> lines;
  if (text.ends_with('\n')) text.remove_suffix(1);
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  lines.emplace_back(text);
  return lines;
}

// Pads the cells of one column, run of lines by run of lines.
void AlignColumn(Rows& lines, size_t column) {
  const auto has = [&](size_t i) { return i < lines.size() && lines[i].size() > column + 1; };
  for (size_t first = 0; first < lines.size(); ++first) {
    size_t width = 0;
    size_t end = first;
    for (; has(end); ++end) width = std::max(width, DisplayWidth(lines[end][column]) + kGap);
    for (; first < end; ++first) {
      std::string& cell = lines[first][column];
      cell.append(width - DisplayWidth(cell), ' ');
    }
  }
}

}  // namespace

void DescribeWriter::Row(int level, std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = OneLine(cell);
  cells.front().insert(0, static_cast<size_t>(level) * 2, ' ');
  lines_.push_back(std::move(cells));
}

void DescribeWriter::Line(int level, const std::string& name, std::string_view value) {
  std::string head = name;
  for (std::string& line : LinesOf(value)) Row(level, {std::exchange(head, ""), std::move(line)});
}

void DescribeWriter::Text(int level, std::string_view text) {
  for (std::string& line : LinesOf(text)) Row(level, {std::move(line)});
}

void DescribeWriter::List(int level, const std::string& name,
                          const std::vector<std::string>& values, std::string_view if_empty) {
  if (values.empty()) return Line(level, name, if_empty);
  for (size_t i = 0; i < values.size(); ++i) Line(level, i == 0 ? name : "", values[i]);
}

std::string DescribeWriter::Render() const {
  Rows lines = lines_;
  size_t columns = 0;
  for (const auto& line : lines) columns = std::max(columns, line.size());
  for (size_t column = 0; column < columns; ++column) AlignColumn(lines, column);
  std::string out;
  for (const auto& line : lines) {
    for (const std::string& cell : line) out += cell;
    out.erase(out.find_last_not_of(' ') + 1);
    out.push_back('\n');
  }
  return out;
}

}  // namespace holdfast::agent::cli
