// SPDX-License-Identifier: Apache-2.0
// What all fuzz targets share. A target takes any input; it must neither crash nor hang nor use
// more memory than its limits, and breaks its promise with Require().
#pragma once

#include <cstdlib>
#include <iostream>
#include <string_view>

namespace holdfast::fuzz {

inline void Require(bool holds, const char* promise, std::string_view input) {
  if (holds) return;
  std::cerr << "broken: " << promise << "\n" << input << std::endl;
  std::abort();
}

}  // namespace holdfast::fuzz
