// SPDX-License-Identifier: Apache-2.0
// Our verdicts beside those that Kubernetes' own code gave of the same objects, recorded by
// tests/kube/validation/run --record. Needs neither Go nor network.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "holdfast/base/strings.h"
#include "tests/kube/validation/kit/cases.h"

namespace holdfast::agent::kube {
namespace {

const std::string kFolder = VALIDATION_FOLDER;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ValidationReplayTest, DiffersFromKubernetesOnlyWhereItIsWanted) {
  std::string fault;
  const std::vector<Wanted> wanted = ReadWanted(ReadAll(kFolder + "/wanted.txt"), &fault);
  ASSERT_EQ(fault, "");
  ASSERT_FALSE(wanted.empty());
  Tally tally(wanted);
  CaseReader reader([&](const Case& one) { tally.Add(one); });
  const auto read = reader.ReadFile(kFolder + "/recorded.jsonl.gz");
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_GE(tally.cases(), 5000);
  EXPECT_TRUE(tally.AllWanted()) << tally.Summary();
  for (const Wanted* entry : tally.Unused()) {
    ADD_FAILURE() << "wanted.txt:" << entry->line
                  << ": no recorded case needs it: " << entry->reason;
  }
}

TEST(ValidationReplayTest, TheSameSeedMakesTheSameMutant) {
  const auto bases = ReadBases(kFolder + "/bases");
  ASSERT_TRUE(bases.has_value()) << bases.error().message();
  const Mutator mutator(*bases);
  const Mutator other(*bases);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    EXPECT_EQ(LineOf(seed, mutator.Make(seed), *bases), LineOf(seed, other.Make(seed), *bases));
  }
}

TEST(ValidationReplayTest, WeAcceptTheGoodObjects) {
  const auto bases = ReadBases(kFolder + "/bases");
  ASSERT_TRUE(bases.has_value()) << bases.error().message();
  for (const auto& [name, object] : *bases) {
    const Verdict verdict = Judge(TextOf({.base = name, .edits = {}}, *bases));
    EXPECT_TRUE(verdict.empty()) << name << ": " << (verdict.empty() ? "" : verdict[0].ToString());
  }
}

// The comparison itself: it finds what differs, and takes for wanted only what is listed.
TEST(CompareTest, TellsWhatNobodyWants) {
  std::string fault;
  const std::vector<Wanted> wanted = ReadWanted(
      "# a comment\n\n"
      "ours spec.a[].b Invalid_value ~too * -- we are stricter\n"
      "theirs *.c * -- not judged here\n"
      "moved spec.x spec.x[].y -- the index\n",
      &fault);
  ASSERT_EQ(fault, "");
  ASSERT_EQ(wanted.size(), 3u);
  const Finding ours{"spec.a[3].b", "Invalid value: 1: too small"};
  const Finding theirs{"spec.d.c", "Required value"};
  EXPECT_TRUE(Compare({ours}, {}, wanted).not_wanted.empty());
  EXPECT_TRUE(Compare({ours}, {theirs}, wanted).not_wanted.empty());
  EXPECT_EQ(Compare({theirs}, {}, wanted).not_wanted.size(), 1u);
  EXPECT_EQ(Compare({{"spec.a[3].b", "Invalid value: 1: bad"}}, {}, wanted).not_wanted.size(), 1u);
  EXPECT_TRUE(Compare({{"spec.x[1].y", "Forbidden: m"}}, {{"spec.x", "Forbidden: n"}}, wanted)
                  .not_wanted.empty());
  EXPECT_EQ(Compare({{"spec.x[1].y", "Forbidden: m"}}, {{"spec.x", "Required value"}}, wanted)
                .not_wanted.size(),
            2u);
  const Comparison other_words =
      Compare({{"spec.z", "Invalid value: a"}}, {{"spec.z", "Invalid value: b"}}, wanted);
  EXPECT_TRUE(other_words.same_fields);
  EXPECT_FALSE(other_words.same_text);
  ReadWanted("ours spec.a -- no kind\n", &fault);
  EXPECT_NE(fault, "");
}

}  // namespace
}  // namespace holdfast::agent::kube
