// SPDX-License-Identifier: Apache-2.0
// A text that is a number and nothing else. Pure.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace holdfast {

// Decimal, without a plus sign. Absent: it is none, something follows, or the type cannot hold it.
template <class Number>
std::optional<Number> WholeNumber(std::string_view text) {
  Number number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace holdfast
