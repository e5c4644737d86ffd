// SPDX-License-Identifier: Apache-2.0
// What all fuzz targets share. A target takes any input; it must neither crash nor hang nor use
// more memory than its limits, and breaks its promise with Require().
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::fuzz {

using Target = void (*)(std::string_view input);

inline void Require(bool holds, const char* promise, std::string_view input) {
  if (holds) return;
  std::cerr << "broken: " << promise << "\n" << input << std::endl;
  std::abort();
}

// The target without the engine: good inputs, then damaged ones from a fixed sequence. `marks` are
// characters that the format knows.
inline void Replay(Target target, const std::vector<std::string>& seeds,
                   std::string_view marks = {}, int rounds = 400) {
  std::mt19937 random(20260101);
  for (const std::string& seed : seeds) {
    target(seed);
    for (int round = 0; round < rounds; ++round) {
      std::string input =
          seed.substr(0, random() % 4 == 0 ? random() % (seed.size() + 1) : seed.size());
      for (unsigned change = 0; change < 1 + random() % 8 && !input.empty(); ++change) {
        const bool marked = !marks.empty() && random() % 2 == 0;
        const char byte = marked ? marks[random() % marks.size()] : static_cast<char>(random());
        const size_t at = random() % input.size();
        if (random() % 2 == 0) {
          input[at] = byte;
        } else {
          input.insert(at, 1, byte);
        }
      }
      target(input);
    }
  }
}

#ifdef FUZZ_CORPUS
// What fuzzing has found worth keeping for a target: each file once. How many there are.
inline size_t ReplayCorpus(Target target, const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(FUZZ_CORPUS) / name;
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    target(std::string(std::istreambuf_iterator<char>(file), {}));
    ++files;
  }
  return files;
}
#endif

}  // namespace holdfast::fuzz
