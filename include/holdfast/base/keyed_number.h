// SPDX-License-Identifier: Apache-2.0
// Numbers in the kernel's text files of lines "key value" ("MemTotal:       1024 kB", "pgfault 7").
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace holdfast {

// Behind the word that a line begins with; 0 when there is no such line, or no number.
inline uint64_t KeyedNumber(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    const size_t digits = line.find_first_not_of(" \t");
    if (digits == 0 || digits == std::string_view::npos) continue;  // a longer word, or nothing
    uint64_t value = 0;
    (void)std::from_chars(line.data() + digits, line.data() + line.size(), value);  // else it is 0
    return value;
  }
  return 0;
}

}  // namespace holdfast
