// SPDX-License-Identifier: Apache-2.0
// Table: columns as kubectl lays them out: three spaces between, six wide at least. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::agent::cli {

class Table {
 public:
  static constexpr size_t kGap = 3;
  static constexpr size_t kMinWidth = 6;

  explicit Table(std::vector<std::string> header, size_t gap = kGap, size_t min_width = kMinWidth)
      : header_(std::move(header)), gap_(gap), min_width_(min_width) {}

  // As many cells as the header has. Control characters are made visible, a cell ends at its first
  // line break: what is shown comes from images and manifests and must not steer the terminal.
  void AddRow(std::vector<std::string> cells);
  size_t rows() const { return rows_.size(); }

  // Header (unless left out) and the rows added since the last call. Columns only ever grow, so a
  // watch goes on in the columns it began with.
  std::string Render(bool with_header);

 private:
  void Widen(const std::vector<std::string>& cells);
  void RenderRow(const std::vector<std::string>& cells, std::string& out) const;

  std::vector<std::string> header_;
  const size_t gap_;
  const size_t min_width_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
};

// Control characters other than newline and tab as "^X", those of C1 and what is no UTF-8 as
// base/printable.h has them, so that text of others is safe to print.
std::string Visible(std::string_view text);

// The first line of it, "..." where there are more; tabs are spaces.
std::string OneLine(std::string_view text);

// Number of columns that UTF-8 text takes (one per character).
size_t DisplayWidth(std::string_view text);

}  // namespace holdfast::agent::cli
