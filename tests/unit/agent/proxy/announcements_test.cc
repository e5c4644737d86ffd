// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/announcements.h"

#include <gtest/gtest.h>

#include <string>

namespace holdfast::agent {
namespace {

AgentConfig Announcing() {
  AgentConfig config;
  config.announce_interfaces = {"eth0"};
  config.announce_addresses = {"198.51.100.0/28", "2001:db8:100::/64"};
  return config;
}

std::string ErrorOf(const AgentConfig& config) {
  const auto options = ReadAnnounceOptions(config);
  return options ? "" : options.error().message();
}

TEST(AnnounceOptionsTest, AreOffByDefault) {
  const auto options = ReadAnnounceOptions(AgentConfig());
  ASSERT_TRUE(options);
  EXPECT_FALSE(*options);
}

TEST(AnnounceOptionsTest, AreTakenOver) {
  AgentConfig config = Announcing();
  config.announce_priority = 200;
  const auto options = ReadAnnounceOptions(config);
  ASSERT_TRUE(options) << options.error().message();
  ASSERT_TRUE(*options);
  EXPECT_EQ((*options)->interfaces, std::vector<std::string>{"eth0"});
  EXPECT_EQ((*options)->ranges.size(), 2u);
  EXPECT_EQ((*options)->priority, 200);
}

TEST(AnnounceOptionsTest, HalfOfThemIsAMistake) {
  AgentConfig config = Announcing();
  config.announce_addresses.clear();
  EXPECT_EQ(ErrorOf(config), "announceInterfaces: announceAddresses must say which addresses");
  config = Announcing();
  config.announce_interfaces.clear();
  EXPECT_EQ(ErrorOf(config), "announceAddresses: announceInterfaces must say where");
}

TEST(AnnounceOptionsTest, PodsAndClusterIpsAreNobodysToAnnounce) {
  for (const char* range : {"10.88.3.0/24", "10.0.0.0/8", "10.96.0.0/16", "fd00:96::/64"}) {
    AgentConfig config = Announcing();
    config.announce_addresses = {range};
    EXPECT_NE(ErrorOf(config).find("overlaps"), std::string::npos) << range << ErrorOf(config);
  }
  AgentConfig config = Announcing();
  config.announce_addresses = {"198.51.100.7"};
  EXPECT_EQ(ErrorOf(config), "announceAddresses: \"198.51.100.7\" is no CIDR");
}

TEST(AnnounceOptionsTest, InterfacesOfPodsAndDoubleOnesAreRefused) {
  AgentConfig config = Announcing();
  config.announce_interfaces = {"hf1234"};
  EXPECT_EQ(ErrorOf(config), "announceInterfaces: hf1234 is an interface of a pod");
  config.announce_interfaces = {"eth0", "eth0"};
  EXPECT_EQ(ErrorOf(config), "announceInterfaces: eth0 is named twice");
}

TEST(AnnounceOptionsTest, IpvsNeedsStrictArp) {
  AgentConfig config = Announcing();
  config.proxy_mode = "ipvs";
  EXPECT_NE(ErrorOf(config).find("set ipvsStrictARP"), std::string::npos) << ErrorOf(config);
  EXPECT_FALSE(CheckAnnounceMode(config, "ipvs")) << "also when the mode changes later";
  EXPECT_TRUE(CheckAnnounceMode(config, "iptables"));
  config.ipvs_strict_arp = true;
  EXPECT_EQ(ErrorOf(config), "");
  EXPECT_TRUE(CheckAnnounceMode(AgentConfig(), "ipvs"));
}

}  // namespace
}  // namespace holdfast::agent
