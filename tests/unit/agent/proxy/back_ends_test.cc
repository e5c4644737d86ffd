// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/back_ends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

const std::string kHead = "apiVersion: holdfast.dev/v1\nkind: AgentConfiguration\n";

TEST(BackEndsTest, ModesOfTheConfigurationAreKnown) {
  EXPECT_THAT(ProxyModes(), ::testing::ElementsAre("nftables", "iptables", "ipvs"));
  for (const std::string& mode : ProxyModes()) {
    AgentConfig config;
    EXPECT_TRUE(ReadConfigText(kHead + "proxyMode: " + mode + "\n", "c.yaml", config)) << mode;
    EXPECT_EQ(config.proxy.mode, mode);
  }
}

TEST(BackEndsTest, IpvsIsConfigured) {
  AgentConfig config;
  const std::string text =
      "ipvsScheduler: sh\nipvsSchedulerFlags: [sh-port]\nipvsStrictARP: true\n"
      "ipvsExcludeCIDRs: [192.0.2.0/24]\nipvsTcpTimeout: 15m\nipvsTcpFinTimeout: 30s\n"
      "ipvsUdpTimeout: 1m\n";
  const auto read = ReadConfigText(kHead + text, "c.yaml", config);
  ASSERT_TRUE(read) << read.error().message();
  const auto options = ReadIpvsOptions(config.proxy.ipvs);
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(options->scheduler, "sh");
  EXPECT_THAT(options->scheduler_flags, ::testing::ElementsAre("sh-port"));
  EXPECT_TRUE(options->strict_arp);
  EXPECT_THAT(options->exclude_cidrs, ::testing::ElementsAre(*Cidr::Parse("192.0.2.0/24")));
  EXPECT_EQ(options->tcp_timeout, std::chrono::seconds(900));
  EXPECT_EQ(options->tcp_fin_timeout, std::chrono::seconds(30));
  EXPECT_EQ(options->udp_timeout, std::chrono::seconds(60));
}

TEST(BackEndsTest, WrongIpvsOptionsAreNamed) {
  AgentConfig config;
  const auto read = ReadConfigText(kHead + "ipvsStrictARP: maybe\n", "c.yaml", config);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message(), ::testing::HasSubstr("none of: true, false"));
  config.proxy.ipvs.scheduler = "fastest";
  EXPECT_EQ(ReadIpvsOptions(config.proxy.ipvs).error().message(),
            "ipvs: there is no scheduler \"fastest\"");
  config.proxy.ipvs.scheduler = "rr";
  config.proxy.ipvs.exclude_cidrs = {"192.0.2.1/24"};
  EXPECT_THAT(ReadIpvsOptions(config.proxy.ipvs).error().message(),
              ::testing::StartsWith("ipvsExcludeCIDRs: CIDR"));
}

}  // namespace
}  // namespace holdfast::agent
