// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/log/log_format.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr WallTime kTime{std::chrono::nanoseconds(1'700'000'000'012'345'678)};
constexpr char kOut[] = "2023-11-14T22:13:20.012345678Z stdout ";

struct Outcome {
  std::string text;
  Formatted formatted;
};

Outcome Format(std::string_view text, bool at_end, size_t room = 1 << 20) {
  std::string out(room, '\0');
  const Formatted formatted = FormatEntries(text, LogStream::kStdout, kTime, at_end, out);
  out.resize(formatted.produced);
  return {out, formatted};
}

TEST(LogFormatTest, TimesAreUtcWithNineDigits) {
  EXPECT_EQ(FormatTime(kTime), "2023-11-14T22:13:20.012345678Z");
  EXPECT_EQ(FormatTime({}), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(FormatRotationTime(kTime), "20231114-221320");
}

TEST(LogFormatTest, WholeLinesBecomeFullEntriesAndTheRestWaits) {
  const Outcome out = Format("one\n\ntwo\nthr", false);
  EXPECT_EQ(out.text, StrCat(kOut, "F one\n", kOut, "F \n", kOut, "F two\n"));
  EXPECT_EQ(out.formatted.consumed, 9u);
  EXPECT_FALSE(out.formatted.full);
}

TEST(LogFormatTest, TheRestBecomesPartialAtTheEnd) {
  const Outcome out = Format("one\nthr", true);
  EXPECT_EQ(out.text, StrCat(kOut, "F one\n", kOut, "P thr\n"));
  EXPECT_EQ(out.formatted.consumed, 7u);
}

TEST(LogFormatTest, StderrIsNamed) {
  std::string out(100, '\0');
  const Formatted formatted = FormatEntries("x\n", LogStream::kStderr, kTime, false, out);
  EXPECT_EQ(out.substr(0, formatted.produced), "2023-11-14T22:13:20.012345678Z stderr F x\n");
}

// The lengths around a multiple of the limit, as containerd splits them.
TEST(LogFormatTest, LongLinesAreSplitAt16384) {
  const std::string full(kMaxEntryText, 'a');
  struct Case {
    size_t length;
    std::vector<size_t> partial;
    size_t last;
  };
  for (const Case& c : std::vector<Case>{{16383, {}, 16383},
                                         {16384, {}, 16384},
                                         {16385, {16384}, 1},
                                         {32768, {16384}, 16384},
                                         {32769, {16384, 16384}, 1}}) {
    std::string expected;
    for (const size_t n : c.partial) expected += StrCat(kOut, "P ", std::string(n, 'a'), "\n");
    expected += StrCat(kOut, "F ", std::string(c.last, 'a'), "\n");
    const Outcome out = Format(std::string(c.length, 'a') + "\n", false);
    EXPECT_TRUE(out.text == expected) << c.length;
    EXPECT_EQ(out.formatted.consumed, c.length + 1);
  }
  EXPECT_EQ(Format(full, false).formatted.consumed, 0u) << "its newline may still come";
  EXPECT_EQ(Format(full + "a", false).formatted.consumed, kMaxEntryText);
}

TEST(LogFormatTest, StopsBeforeAnEntryThatDoesNotFit) {
  const size_t one = sizeof kOut - 1 + 2 + 3 + 1;
  EXPECT_EQ(Format("one\ntwo\n", false, 2 * one).formatted.produced, 2 * one);
  const Outcome out = Format("one\ntwo\n", false, 2 * one - 1);
  EXPECT_EQ(out.formatted.consumed, 4u);
  EXPECT_TRUE(out.formatted.full);
}

// What recovery relies on: the consumed range, formatted alone and as an end, gives the same bytes.
TEST(LogFormatTest, TheConsumedRangeAloneGivesTheSameBytes) {
  std::string text = "short\n" + std::string(40000, 'b') + "\n\nlast\nunfinished";
  text += std::string(20000, 'c');
  for (size_t room = 100; room < 80000; room += 997) {
    const Outcome first = Format(text, false, room);
    const Outcome again = Format(text.substr(0, first.formatted.consumed), true);
    ASSERT_EQ(again.text, first.text) << room;
  }
}

}  // namespace
}  // namespace holdfast::runtime::keeper
