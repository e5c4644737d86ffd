// SPDX-License-Identifier: Apache-2.0
// A text file, whole; also one of /proc.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace holdfast::test_support {

// Empty where there is none.
inline std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace holdfast::test_support
