// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/announcements.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "holdfast/base/unique_fd.h"

namespace holdfast::agent {
namespace {

AgentConfig Announcing() {
  AgentConfig config;
  config.proxy.announce.interfaces = {"eth0"};
  config.proxy.announce.addresses = {"198.51.100.0/28", "2001:db8:100::/64"};
  return config;
}

std::string ErrorOf(const AgentConfig& config) {
  const auto options = ReadAnnounceOptions(config.instance, config.proxy);
  return options ? "" : options.error().message();
}

TEST(AnnounceOptionsTest, AreOffByDefault) {
  const auto options = ReadAnnounceOptions({}, {});
  ASSERT_TRUE(options);
  EXPECT_FALSE(*options);
}

TEST(AnnounceOptionsTest, AreTakenOver) {
  AgentConfig config = Announcing();
  config.proxy.announce.priority = 200;
  const auto options = ReadAnnounceOptions(config.instance, config.proxy);
  ASSERT_TRUE(options) << options.error().message();
  ASSERT_TRUE(*options);
  EXPECT_EQ((*options)->interfaces, std::vector<std::string>{"eth0"});
  EXPECT_EQ((*options)->ranges.size(), 2u);
  EXPECT_EQ((*options)->priority, 200);
}

TEST(AnnounceOptionsTest, HalfOfThemIsAMistake) {
  AgentConfig config = Announcing();
  config.proxy.announce.addresses.clear();
  EXPECT_EQ(ErrorOf(config), "announceInterfaces: announceAddresses must say which addresses");
  config = Announcing();
  config.proxy.announce.interfaces.clear();
  EXPECT_EQ(ErrorOf(config), "announceAddresses: announceInterfaces must say where");
}

TEST(AnnounceOptionsTest, PodsAndClusterIpsAreNobodysToAnnounce) {
  for (const char* range : {"10.88.3.0/24", "10.0.0.0/8", "10.96.0.0/16", "fd00:96::/64"}) {
    AgentConfig config = Announcing();
    config.proxy.announce.addresses = {range};
    EXPECT_NE(ErrorOf(config).find("overlaps"), std::string::npos) << range << ErrorOf(config);
  }
  AgentConfig config = Announcing();
  config.proxy.announce.addresses = {"198.51.100.7"};
  EXPECT_EQ(ErrorOf(config), "announceAddresses: \"198.51.100.7\" is no CIDR");
}

TEST(AnnounceOptionsTest, InterfacesOfPodsAndDoubleOnesAreRefused) {
  AgentConfig config = Announcing();
  config.proxy.announce.interfaces = {"hf1234"};
  EXPECT_EQ(ErrorOf(config), "announceInterfaces: hf1234 is an interface of a pod");
  config.proxy.announce.interfaces = {"eth0", "eth0"};
  EXPECT_EQ(ErrorOf(config), "announceInterfaces: eth0 is named twice");
}

TEST(AnnounceOptionsTest, WithAKubeconfigLeasesDecide) {
  std::string file = std::filesystem::temp_directory_path() / "kubeconfig-XXXXXX";
  const UniqueFd fd(::mkstemp(file.data()));
  AgentConfig config = Announcing();
  EXPECT_FALSE((*ReadAnnounceOptions(config.instance, config.proxy))->server);
  config.proxy.announce.kubeconfig = file;
  EXPECT_EQ(ErrorOf(config), "announceKubeconfig: " + file + ":1:1: expected one map");
  std::ofstream(file) << "current-context: a\n"
                         "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
                         "clusters: [{name: a, cluster: {server: \"https://192.0.2.1\"}}]\n"
                         "users: [{name: a, user: {}}]\n";
  const auto options = ReadAnnounceOptions(config.instance, config.proxy);
  ASSERT_TRUE(options) << options.error().message();
  ASSERT_TRUE((*options)->server);
  EXPECT_EQ((*options)->server->host, "192.0.2.1");
  std::filesystem::remove(file);
  config.proxy.announce.interfaces.clear();
  config.proxy.announce.addresses.clear();
  EXPECT_NE(ErrorOf(config), "") << "a mistake is told, used or not";
}

TEST(AnnounceOptionsTest, IpvsNeedsStrictArp) {
  AgentConfig config = Announcing();
  config.proxy.mode = "ipvs";
  EXPECT_NE(ErrorOf(config).find("set ipvsStrictARP"), std::string::npos) << ErrorOf(config);
  EXPECT_FALSE(CheckAnnounceMode(config.proxy, "ipvs")) << "also when the mode changes later";
  EXPECT_TRUE(CheckAnnounceMode(config.proxy, "iptables"));
  config.proxy.ipvs.strict_arp = true;
  EXPECT_EQ(ErrorOf(config), "");
  EXPECT_TRUE(CheckAnnounceMode({}, "ipvs"));
}

}  // namespace
}  // namespace holdfast::agent
