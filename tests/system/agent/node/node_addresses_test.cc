// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "holdfast/sys/rtnl.h"
#include "tests/support/ip.h"

namespace holdfast::agent {
namespace {

using sys::Rtnl;
using test_support::Ip;
using ::testing::ElementsAre;

constexpr int kLoopback = 1;

// A node with two links, a pod's and its own, that are connected with each other.
class NodeAddressesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    auto rtnl = Rtnl::Open();
    ASSERT_TRUE(rtnl) << rtnl.error().message();
    rtnl_.emplace(std::move(*rtnl));
    const auto ends = rtnl_->AddVeth({.name = "hfpod",
                                      .mac = {2, 0, 0, 0, 0, 1},
                                      .mtu = 1400,
                                      .peer_netns = -1,
                                      .peer_name = "lan0",
                                      .peer_mac = {2, 0, 0, 0, 0, 2}});
    ASSERT_TRUE(ends) << ends.error().message();
    pods_ = ends->index;
    lan_ = ends->peer_index;
    for (const int link : {kLoopback, pods_, lan_}) ASSERT_TRUE(rtnl_->SetLinkUp(link));
  }

  void Give(int link, const char* address, uint8_t prefix_length) {
    const auto given = rtnl_->EnsureAddress({Ip(address), prefix_length, link});
    ASSERT_TRUE(given) << given.error().message();
  }

  void DefaultRoute(const char* network, const char* source) {
    sys::Route route;
    route.destination = *Cidr::Parse(network);
    route.link = lan_;
    route.source = Ip(source);
    route.protocol = 72;
    const auto added = rtnl_->AddRoute(route);
    ASSERT_TRUE(added) << added.error().message();
  }

  std::optional<Rtnl> rtnl_;
  int pods_ = 0;
  int lan_ = 0;
};

TEST_F(NodeAddressesTest, AreTheSourcesOfTheDefaultRoutes) {
  Give(lan_, "10.1.0.1", 24);
  Give(lan_, "10.1.0.2", 24);
  Give(lan_, "fd00:1::2", 64);
  DefaultRoute("0.0.0.0/0", "10.1.0.2");
  EXPECT_THAT(NodeAddresses("hf"), ElementsAre("10.1.0.2"));
  DefaultRoute("::/0", "fd00:1::2");
  EXPECT_THAT(NodeAddresses("hf"), ElementsAre("10.1.0.2", "fd00:1::2"));
}

TEST_F(NodeAddressesTest, WithoutADefaultRouteTheFirstOfAnInterfaceThatIsNotOurs) {
  EXPECT_THAT(NodeAddresses("hf"), ElementsAre("127.0.0.1"));
  Give(kLoopback, "10.9.0.1", 32);
  Give(pods_, "169.254.1.1", 32);
  EXPECT_THAT(NodeAddresses("hf"), ElementsAre("127.0.0.1"));
  Give(lan_, "10.1.0.1", 24);
  Give(lan_, "10.1.0.2", 24);
  EXPECT_THAT(NodeAddresses("hf"), ElementsAre("10.1.0.1"));
}

}  // namespace
}  // namespace holdfast::agent
