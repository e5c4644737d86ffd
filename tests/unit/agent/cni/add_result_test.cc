// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/add_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/base/strings.h"

namespace holdfast::agent::cni {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kDual[] = R"({"cniVersion":"1.1.0",
  "interfaces":[{"name":"cni0","mac":"02:00:00:00:00:01","mtu":1400},
                {"name":"veth1"},
                {"name":"eth0","sandbox":"/run/netns/x","socketPath":"/s","pciID":"0"}],
  "ips":[{"address":"10.0.0.1/24","interface":0},
         {"address":"fd00::5/64","gateway":"fd00::1","interface":2},
         {"address":"10.0.0.5/24","interface":2},
         {"address":"10.0.0.6/24","interface":2}],
  "routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1","mtu":1300,"table":7}],
  "dns":{"nameservers":["10.0.0.53"]}})";

std::string AddError(const std::string& text) {
  const auto result = ReadAddResult(text, "1.0.0");
  return result ? "" : result.error().message();
}

TEST(AddResultTest, TheFirstAddressOfEachFamilyOfThePodsInterfaceIsThePods) {
  const auto result = ReadAddResult(kDual, "1.1.0");
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT(PodAddresses(*result, "eth0", false), ElementsAre("10.0.0.5", "fd00::5"));
  EXPECT_THAT(PodAddresses(*result, "eth0", true), ElementsAre("fd00::5", "10.0.0.5"));
  EXPECT_THAT(PodAddresses(*result, "net1", false), IsEmpty());
  EXPECT_THAT(PodAddresses(*result, "cni0", false), IsEmpty()) << "it is in no sandbox";
}

TEST(AddResultTest, AnAddressOfNoInterfaceIsThePods) {
  const auto result =
      ReadAddResult(R"({"cniVersion":"1.0.0","ips":[{"address":"10.0.0.7/24"}]})", "1.0.0");
  EXPECT_THAT(PodAddresses(*result, "eth0", false), ElementsAre("10.0.0.7"));
  const auto none = ReadAddResult(R"({"cniVersion":"1.0.0","ips":null})", "1.0.0");
  EXPECT_THAT(PodAddresses(*none, "eth0", false), IsEmpty());
}

TEST(AddResultTest, AnOlderFormSaysTheFamilyAndNothingThatIsNew) {
  const auto old = ReadAddResult(kDual, "0.4.0");
  ASSERT_TRUE(old) << old.error().message();
  EXPECT_EQ(old->at("cniVersion"), "0.4.0");
  EXPECT_EQ(old->at("ips").at(0).at("version"), "4");
  EXPECT_EQ(old->at("ips").at(1).at("version"), "6");
  EXPECT_EQ(old->at("interfaces").at(0),
            Json::parse(R"({"name":"cni0","mac":"02:00:00:00:00:01"})"));
  EXPECT_EQ(old->at("interfaces").at(2),
            Json::parse(R"({"name":"eth0","sandbox":"/run/netns/x"})"));
  EXPECT_EQ(old->at("routes").at(0), Json::parse(R"({"dst":"0.0.0.0/0","gw":"10.0.0.1"})"));
  EXPECT_EQ(old->at("dns"), Json::parse(kDual).at("dns"));
}

TEST(AddResultTest, ANewerFormDoesNotSayTheFamily) {
  const auto result = ReadAddResult(
      R"({"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.0.0.7/24"}]})", "1.1.0");
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(*result, Json::parse(R"({"cniVersion":"1.1.0","ips":[{"address":"10.0.0.7/24"}]})"));
}

TEST(AddResultTest, WhatIsNoResultIsRefused) {
  EXPECT_EQ(AddError("{}"), "result: cniVersion \"\" is none of 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0");
  EXPECT_EQ(AddError(R"({"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.7/24"}})"),
            "result: cniVersion \"0.2.0\" is none of 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0");
  const auto with = [](const std::string& rest) {
    return AddError(R"({"cniVersion":"1.0.0",)" + rest + "}");
  };
  EXPECT_EQ(with(R"("ips":[{"address":"10.0.0.7"}])"),
            "result: \"10.0.0.7\" is no address with a prefix length");
  EXPECT_EQ(with(R"("ips":[{"address":"10.0.0.7/33"}])"),
            "result: \"10.0.0.7/33\" is no address with a prefix length");
  EXPECT_EQ(with(R"("ips":[{"address":"10.0.0.7/24","interface":0}])"),
            "result: address 10.0.0.7/24 names an interface that is not there");
  EXPECT_EQ(with(R"("interfaces":[{"name":"eth0"}],"ips":[{"address":"::1/128","interface":-1}])"),
            "result: address ::1/128 names an interface that is not there");
  EXPECT_EQ(with(R"("ips":{})"), "result: ips is no list of objects");
  EXPECT_EQ(with(R"("interfaces":[{"name":7}])"), "name is no string");
  EXPECT_NE(AddError(""), "");
}

}  // namespace
}  // namespace holdfast::agent::cni
