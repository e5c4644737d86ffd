// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/quantity.h"

#include <gtest/gtest.h>

#include <limits>

namespace holdfast::agent::kube {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

struct Case {
  const char* text;
  const char* canonical;
  int64_t units;
  int64_t milli;
};

TEST(AmountTest, ParsesAndPrintsCanonically) {
  const Case cases[] = {
      {"0", "0", 0, 0},
      {"0Mi", "0", 0, 0},
      {"-0", "0", 0, 0},
      {"1", "1", 1, 1000},
      {"+1", "1", 1, 1000},
      {"001", "1", 1, 1000},
      {"1000", "1k", 1000, 1000000},
      {"0.5", "500m", 1, 500},
      {".5", "500m", 1, 500},
      {"5.", "5", 5, 5000},
      {"250m", "250m", 1, 250},
      {"1000m", "1", 1, 1000},
      {"1500m", "1500m", 2, 1500},
      {"100000000n", "100m", 1, 100},
      {"0.0000001m", "1n", 1, 1},
      {"1.5Gi", "1536Mi", 1610612736, 1610612736000},
      {"0.5Ki", "512", 512, 512000},
      {"1.2Ki", "1229", 1229, 1228800},
      {"64Mi", "64Mi", 67108864, 67108864000},
      {"65536Ki", "64Mi", 67108864, 67108864000},
      {"1024Mi", "1Gi", 1073741824, 1073741824000},
      {"100k", "100k", 100000, 100000000},
      {"1e3", "1e3", 1000, 1000000},
      {"1E3", "1e3", 1000, 1000000},
      {"12e4", "120e3", 120000, 120000000},
      {"1e-3", "1e-3", 1, 1},
      {"1E", "1E", 1000000000000000000, kMax},
      {"9223372036854775807", "9223372036854775807", kMax, kMax},
      {"8Ei", "9223372036854775807", kMax, kMax},
      {"-1500m", "-1500m", -2, -1500},
      {"-1Gi", "-1Gi", -1073741824, -1073741824000},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const auto amount = Amount::Parse(c.text);
    ASSERT_TRUE(amount.has_value()) << amount.error().message();
    EXPECT_EQ(amount->ToString(), c.canonical);
    EXPECT_EQ(amount->Units(), c.units);
    EXPECT_EQ(amount->Milli(), c.milli);
    // What is canonical stays as it is.
    EXPECT_EQ(Amount::Parse(c.canonical)->ToString(), c.canonical);
  }
}

TEST(AmountTest, RefusesWhatIsNoQuantity) {
  for (const char* text :
       {"",   "-",   ".",   "m",   "1x",   "1Mx",   "1mi", "1K",  "1 Gi", "1.2.3",
        "1e", "1e+", "1eM", "--1", "0x10", "1_000", "nan", "inf", "1Gi1", "１"}) {
    EXPECT_FALSE(Amount::Parse(text).has_value()) << text;
  }
  EXPECT_EQ(Amount::Parse("64Mx").error().code(), Code::kInvalidArgument);
}

TEST(AmountTest, WhatIsTooMuchIsTheMost) {
  for (const char* text : {"9223372036854775808", "1e19", "1e400", "99E", "99Ei"}) {
    const auto amount = Amount::Parse(text);
    ASSERT_TRUE(amount.has_value()) << amount.error().message();
    EXPECT_EQ(amount->Units(), kMax) << text;
    EXPECT_EQ(Amount::Parse(std::string("-") + text)->Units(), -kMax) << text;
  }
  EXPECT_EQ(Amount::Parse("1e400")->ToString(), "9223372036854775807");
  EXPECT_EQ(Amount::Parse(std::string(400, '9'))->Units(), kMax);
}

TEST(AmountTest, LongDigitsAreExact) {
  EXPECT_EQ(Amount::Parse("0.1000000000000000000000000000001")->ToString(), "100000001n");
  EXPECT_EQ(Amount::Parse(std::string(400, '0') + "7")->ToString(), "7");
  EXPECT_EQ(Amount::Parse("1" + std::string(20, '0') + "e-20")->ToString(), "1");
  EXPECT_EQ(Amount::Parse("1e-400")->ToString(), "1e-9");
}

TEST(AmountTest, AddsAndComparesByValue) {
  EXPECT_EQ(*Amount::Parse("1"), *Amount::Parse("1000m"));
  EXPECT_LT(*Amount::Parse("1k"), *Amount::Parse("1Ki"));
  EXPECT_EQ((*Amount::Parse("100m") + *Amount::Parse("0.9")).ToString(), "1");
  EXPECT_EQ((*Amount::Parse("64Mi") + *Amount::Parse("64Mi")).ToString(), "128Mi");
  EXPECT_EQ((Amount() + *Amount::Parse("1Gi")).ToString(), "1Gi");
  EXPECT_EQ((*Amount::Parse("9223372036854775807") + *Amount::Parse("1")).Units(), kMax);
  EXPECT_EQ(Amount::FromMilli(1500).ToString(), "1500m");
  EXPECT_EQ(Amount::FromUnits(2048, Amount::Format::kBinarySi).ToString(), "2Ki");
}

}  // namespace
}  // namespace holdfast::agent::kube
