// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/table.h"

#include <algorithm>

#include "holdfast/base/printable.h"

namespace holdfast::agent::cli {
std::string Visible(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F) {
      out.push_back('^');
      out.push_back(static_cast<char>(byte ^ 0x40u));
    } else {
      out.push_back(c);
    }
  }
  return Printable(out, Lines::kMany);
}

std::string OneLine(std::string_view text) {
  const size_t end = text.find_first_of("\n\r");
  std::string line = Visible(text.substr(0, end));
  if (end != std::string_view::npos) line += "...";
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

void Table::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = OneLine(cell);
  rows_.push_back(std::move(cells));
}

void Table::Widen(const std::vector<std::string>& cells) {
  widths_.resize(std::max(widths_.size(), cells.size()), min_width_);
  for (size_t i = 0; i < cells.size(); ++i) {
    widths_[i] = std::max(widths_[i], DisplayWidth(cells[i]) + gap_);
  }
}

void Table::RenderRow(const std::vector<std::string>& cells, std::string& out) const {
  for (size_t i = 0; i < cells.size(); ++i) {
    out += cells[i];
    if (i + 1 < cells.size()) out.append(widths_[i] - DisplayWidth(cells[i]), ' ');
  }
  out.push_back('\n');
}

std::string Table::Render(bool with_header) {
  if (with_header) Widen(header_);
  for (const auto& row : rows_) Widen(row);
  std::string out;
  if (with_header) RenderRow(header_, out);
  for (const auto& row : rows_) RenderRow(row, out);
  rows_.clear();
  return out;
}

}  // namespace holdfast::agent::cli
