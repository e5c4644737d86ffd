// SPDX-License-Identifier: Apache-2.0
// A fuzz target in the unit tier, without the engine. The test has the target's name: FuzzTar is replayed by
// TEST(FuzzSmokeTest, Tar), its program is fuzztar.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::fuzz {

using Target = void (*)(std::string_view input);

inline std::string ProgramOfThisTest() {
  std::string name = "fuzz";
  for (const char* at = testing::UnitTest::GetInstance()->current_test_info()->name(); *at; ++at) {
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(*at)));
  }
  return name;
}

// For the engine to begin with (tests/fuzz/run): into the program's folder below `corpora`.
inline void WriteSeeds(const std::filesystem::path& corpora,
                       const std::vector<std::string>& seeds) {
  const std::filesystem::path folder = corpora / ProgramOfThisTest();
  std::filesystem::create_directories(folder);
  for (size_t at = 0; at < seeds.size(); ++at) {
    std::ofstream file(folder / ("seed-" + std::to_string(at)), std::ios::binary);
    file << seeds[at] << std::flush;
    ASSERT_TRUE(file) << folder;
  }
}

// What fuzzing has found worth keeping for the target, if anything: each file once.
inline void ReplayCorpus(Target target) {
  const std::filesystem::path corpora = FUZZ_CORPUS;
  ASSERT_TRUE(std::filesystem::exists(corpora));
  const std::filesystem::path folder = corpora / ProgramOfThisTest();
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    target(std::string(std::istreambuf_iterator<char>(file), {}));
  }
}

// Good inputs, each also damaged in ways from a fixed sequence, and the kept ones. `marks` are
// characters that the format knows.
inline void Replay(Target target, const std::vector<std::string>& seeds,
                   std::string_view marks = {}, int rounds = 400) {
  if (const char* corpora = std::getenv("FUZZ_SEEDS")) WriteSeeds(corpora, seeds);
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
  ReplayCorpus(target);
}

}  // namespace holdfast::fuzz
