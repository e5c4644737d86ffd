// SPDX-License-Identifier: Apache-2.0
#include "holdfast/base/ip_address.h"

#include <gtest/gtest.h>

#include "tests/support/ip.h"

namespace holdfast {
namespace {

using test_support::Ip;

TEST(IpAddressTest, ParsesBothFamiliesAndPrintsThemShort) {
  for (const char* text : {"0.0.0.0", "10.88.0.255", "::", "fd00:88::2", "2001:db8::1:0:0:1"}) {
    EXPECT_EQ(Ip(text).ToString(), text);
  }
  EXPECT_FALSE(Ip("1.2.3.4").v6);
  EXPECT_TRUE(Ip("::1").v6);
}

TEST(IpAddressTest, RefusesWhatIsNone) {
  for (const char* text :
       {"", "1.2.3", "1.2.3.4.5", "256.1.1.1", "g::", "1.2.3.4/8", " 1.2.3.4", "01.2.3.4"}) {
    EXPECT_FALSE(IpAddress::Parse(text)) << text;
  }
}

TEST(IpAddressTest, NextCarriesAndWraps) {
  EXPECT_EQ(Ip("10.0.0.255").Next(), Ip("10.0.1.0"));
  EXPECT_EQ(Ip("255.255.255.255").Next(), Ip("0.0.0.0"));
  EXPECT_EQ(Ip("fd00::ffff").Next(), Ip("fd00::1:0"));
}

TEST(CidrTest, KnowsItsMembersAndItsEnd) {
  const Cidr odd = Cidr::Parse("10.0.4.0/22").value();
  EXPECT_TRUE(odd.Contains(Ip("10.0.7.255")));
  EXPECT_FALSE(odd.Contains(Ip("10.0.8.0")));
  EXPECT_FALSE(odd.Contains(Ip("::")));
  EXPECT_EQ(odd.Last(), Ip("10.0.7.255"));
  EXPECT_EQ(Cidr::Parse("fd00::/127").value().Last(), Ip("fd00::1"));
  EXPECT_TRUE(Cidr::Parse("0.0.0.0/0").value().Contains(Ip("255.1.2.3")));
  EXPECT_EQ(Cidr::Parse("fd00:88::/64").value().ToString(), "fd00:88::/64");
}

TEST(CidrTest, RefusesHostBitsAndBadLengths) {
  EXPECT_EQ(Cidr::Parse("10.88.0.1/16").error().message(),
            "CIDR \"10.88.0.1/16\": host bits are set, 10.88.0.0/16 is meant");
  for (const char* text :
       {"10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "::/129", "/8"}) {
    EXPECT_FALSE(Cidr::Parse(text)) << text;
  }
}

}  // namespace
}  // namespace holdfast
