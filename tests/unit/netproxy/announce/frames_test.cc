// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/frames.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/ip.h"

namespace holdfast::netproxy::announce {
namespace {

constexpr MacAddress kOwn = {2, 0, 0, 0, 0, 1};
constexpr MacAddress kClient = {2, 0, 0, 0, 0, 9};

using test_support::Ip;

Speaker Own() { return {kOwn, Ip("fe80::1"), 100}; }
Speaker Client() { return {kClient, Ip("fe80::9"), 7}; }

class BothFamilies : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Frames, BothFamilies, testing::Values("198.51.100.7", "2001:db8::7"));

TEST_P(BothFamilies, AnAnnouncementIsAClaimWithPriorityAndNoQuestion) {
  const Heard heard = Parse(Announcement(Ip(GetParam()), Own()));
  EXPECT_EQ(heard.claim, (Claim{Ip(GetParam()), kOwn, 100}));
  EXPECT_FALSE(heard.question);
}

TEST_P(BothFamilies, AnAnswerIsAClaimAndGoesToTheAsker) {
  const IpAddress asker =
      GetParam().find(':') == std::string::npos ? Ip("198.51.100.1") : Ip("2001:db8::1");
  const Frame answer = Answer({Ip(GetParam()), kClient, asker}, Own());
  EXPECT_TRUE(std::equal(kClient.begin(), kClient.end(), answer.begin()));
  EXPECT_EQ(Parse(answer).claim, (Claim{Ip(GetParam()), kOwn, 100}));
}

TEST_P(BothFamilies, AskingClaimsNothing) {
  const Frame everybody = Ask(Ip(GetParam()), Client(), std::nullopt);
  EXPECT_EQ(everybody[0] & 1, 1) << "not to a group";
  const Frame one = Ask(Ip(GetParam()), Client(), kOwn);
  EXPECT_TRUE(std::equal(kOwn.begin(), kOwn.end(), one.begin()));
  for (const Frame& frame : {everybody, one}) {
    const Heard heard = Parse(frame);
    ASSERT_TRUE(heard.question);
    EXPECT_EQ(heard.question->address, Ip(GetParam()));
    EXPECT_EQ(heard.question->mac, kClient);
    EXPECT_TRUE(!heard.claim || heard.claim->address != Ip(GetParam()));
  }
}

TEST_P(BothFamilies, EveryShorterFrameIsRefusedOrUnderstoodAndNeverReadBeyond) {
  for (const Frame& whole : {Announcement(Ip(GetParam()), Own()), Ask(Ip(GetParam()), Own(), {})}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      const Frame cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      const Heard heard = Parse(cut);
      EXPECT_TRUE(size >= 42 || (!heard.claim && !heard.question)) << size;
    }
  }
}

// Every byte of a frame turned into every value: nothing but a claim or a question comes of it.
TEST_P(BothFamilies, AWrongByteIsHarmless) {
  const Frame whole = Answer({Ip(GetParam()), kClient, Ip(GetParam()).Next()}, Own());
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      Frame wrong = whole;
      wrong[at] = static_cast<uint8_t>(value);
      const Heard heard = Parse(wrong);
      const bool summed = GetParam().find(':') != std::string::npos && at >= 22;
      EXPECT_TRUE(!summed || !heard.claim || wrong == whole) << "against the check sum, at " << at;
    }
  }
}

TEST(ArpTest, OtherPeoplesClaimsHaveNoPriority) {
  Frame frame = Announcement(Ip("198.51.100.7"), Own());
  for (size_t i = 42; i < frame.size(); ++i) frame[i] = 0;
  EXPECT_EQ(Parse(frame).claim, (Claim{Ip("198.51.100.7"), kOwn, std::nullopt}));
  frame.resize(42);
  EXPECT_EQ(Parse(frame).claim, (Claim{Ip("198.51.100.7"), kOwn, std::nullopt}));
}

TEST(ArpTest, WhoAsksClaimsItsOwnAddress) {
  // A machine with 198.51.100.7 asks for its router.
  Frame frame = Answer({Ip("198.51.100.7"), kClient, Ip("198.51.100.1")}, Own());
  frame[21] = 1;  // a request
  const Heard heard = Parse(frame);
  ASSERT_TRUE(heard.question && heard.claim);
  EXPECT_EQ(heard.question->address, Ip("198.51.100.1"));
  EXPECT_EQ(heard.claim->address, Ip("198.51.100.7"));
}

TEST(ArpTest, NobodyIsAskedForNoAddress) {
  const Heard heard = Parse(Ask(Ip("0.0.0.0"), Client(), std::nullopt));
  EXPECT_FALSE(heard.question || heard.claim);
}

TEST(NeighbourTest, NobodyIsAskedForNoAddressOrAGroup) {
  for (const char* nobody : {"::", "ff02::1"}) {
    const Heard heard = Parse(Ask(Ip(nobody), Client(), std::nullopt));
    EXPECT_FALSE(heard.question || heard.claim) << nobody;
    EXPECT_FALSE(Parse(Announcement(Ip(nobody), Client())).claim) << nobody;
  }
}

TEST(NeighbourTest, WhatARouterPassedOnIsNotOfTheSegment) {
  Frame frame = Announcement(Ip("2001:db8::7"), Own());
  frame[21] = 254;
  EXPECT_FALSE(Parse(frame).claim);
}

TEST(NeighbourTest, WhoHasNoAddressYetIsAnsweredByTellingEverybody) {
  IpAddress nobody;
  nobody.v6 = true;
  EXPECT_EQ(Answer({Ip("2001:db8::7"), kClient, nobody}, Own()),
            Announcement(Ip("2001:db8::7"), Own()));
}

TEST(NeighbourTest, QuestionsGoToTheGroupOfTheLastThreeBytes) {
  EXPECT_EQ(SolicitedNode(Ip("2001:db8::1234:5678")), Ip("ff02::1:ff34:5678"));
  const Frame frame = Ask(Ip("2001:db8::1234:5678"), Own(), std::nullopt);
  const MacAddress group = {0x33, 0x33, 0xff, 0x34, 0x56, 0x78};
  EXPECT_TRUE(std::equal(group.begin(), group.end(), frame.begin()));
}

}  // namespace
}  // namespace holdfast::netproxy::announce
