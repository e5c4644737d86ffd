// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/range_record.h"

#include <gtest/gtest.h>

namespace holdfast::netproxy {
namespace {

std::vector<Cidr> Ranges(const std::vector<std::string>& texts) {
  std::vector<Cidr> out;
  for (const std::string& text : texts) out.push_back(Cidr::Parse(text).value());
  return out;
}

TEST(RangeRecordTest, WhatIsReplacedIsFormerUntilItComesBack) {
  RangeRecord record = Renewed({}, Ranges({"10.1.0.0/24", "fd00:1::/64"}));
  EXPECT_TRUE(record.former.empty());
  record = Renewed(record, Ranges({"10.2.0.0/24", "fd00:1::/64"}));
  EXPECT_EQ(record.own, Ranges({"10.2.0.0/24", "fd00:1::/64"}));
  EXPECT_EQ(record.former, Ranges({"10.1.0.0/24"}));
  record = Renewed(record, Ranges({"10.3.0.0/24"}));
  EXPECT_EQ(record.former, Ranges({"10.1.0.0/24", "10.2.0.0/24", "fd00:1::/64"}));
  record = Renewed(record, Ranges({"10.1.0.0/24"}));
  EXPECT_EQ(record.own, Ranges({"10.1.0.0/24"}));
  EXPECT_EQ(record.former, Ranges({"10.2.0.0/24", "fd00:1::/64", "10.3.0.0/24"}));
}

TEST(RangeRecordTest, IsReadAsItWasWritten) {
  const RangeRecord record{Ranges({"10.2.0.0/24"}), Ranges({"10.1.0.0/24", "fd00::/64"}),
                           Ranges({"10.0.0.0/8"})};
  EXPECT_EQ(FormatRanges(record),
            "own 10.2.0.0/24\nformer 10.1.0.0/24\nformer fd00::/64\ndirect 10.0.0.0/8\n");
  EXPECT_EQ(ParseRanges(FormatRanges(record)).value(), record);
  EXPECT_EQ(ParseRanges("").value(), RangeRecord());
}

TEST(RangeRecordTest, DamageIsNamed) {
  for (const char* line : {"own", "own x", "theirs 10.0.0.0/8", "own 10.0.0.0", " 10.0.0.0/8"}) {
    const auto read = ParseRanges(std::string("own 10.1.0.0/24\n") + line + "\n");
    ASSERT_FALSE(read) << line;
    EXPECT_NE(read.error().message().find(line), std::string::npos) << read.error().message();
  }
}

}  // namespace
}  // namespace holdfast::netproxy
