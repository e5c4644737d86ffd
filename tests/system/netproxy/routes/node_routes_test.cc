// SPDX-License-Identifier: Apache-2.0
// Routes to other nodes' pods: the kernel is read back, and a packet goes there.
#include "netproxy/routes/node_routes.h"

#include <gtest/gtest.h>

#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::netproxy {
namespace {

class NodeRoutesTest : public NetFixture {
 protected:
  static NodePeer Peer(const std::string& range, const std::string& address) {
    return {"n2", {Cidr::Parse(range).value()}, {IpAddress::Parse(address).value()}};
  }
  static NodePeer Self(const std::string& range = "10.88.0.0/16") {
    return {"n1", {Cidr::Parse(range).value()}, {IpAddress::Parse("192.0.2.2").value()}};
  }
  static std::string Routes() {
    return Command("ip route show proto 72; ip -6 route show proto 72");
  }
};

TEST_F(NodeRoutesTest, FollowWhatThePeersSay) {
  const std::string before = Routes();
  auto routes = NodeRoutes::Open({});
  ASSERT_OK(routes);
  const std::vector<NodePeer> peers = {Peer("10.2.0.0/24", "192.0.2.1"),
                                       Peer("fd00:2::/64", "2001:db8::1")};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ((*routes)->Apply(peers, Self()).value(), std::vector<std::string>{});
    EXPECT_NE(Routes().find("10.2.0.0/24 via 192.0.2.1 dev up0"), std::string::npos) << Routes();
    EXPECT_NE(Routes().find("fd00:2::/64 via 2001:db8::1 dev up0"), std::string::npos) << Routes();
  }
  EXPECT_EQ((*routes)->Apply({Peer("10.2.0.0/24", "192.0.2.9")}, Self()).value(),
            std::vector<std::string>{});
  EXPECT_NE(Routes().find("10.2.0.0/24 via 192.0.2.9 dev up0"), std::string::npos) << Routes();
  EXPECT_EQ(Routes().find("fd00:2::/64"), std::string::npos) << Routes();
  ASSERT_OK((*routes)->Remove());
  EXPECT_EQ(Routes(), before) << "the pods' own routes stay";
}

TEST_F(NodeRoutesTest, PodsOfTwoNodesMeetWithTheirOwnAddresses) {
  Pod pod = MakePod("web");
  auto out = sys::Rtnl::OpenIn(outside_.get());
  ASSERT_OK(out);
  Address(*out, "lo", "10.2.0.7", 32);  // a pod there
  sys::Route back;
  back.destination = *Cidr::Parse("10.88.0.0/16");
  back.gateway = *IpAddress::Parse("192.0.2.2");
  back.link = out->GetLink("eth0")->index;
  ASSERT_OK(out->ReplaceRoute(back));
  auto routes = NodeRoutes::Open({});
  ASSERT_OK(routes);
  const std::vector<NodePeer> peers = {Peer("10.2.0.0/24", "192.0.2.1")};
  ASSERT_OK((*routes)->Apply(peers, Self()));
  ASSERT_OK(net_->SetRanges({}, ReachedDirectly(peers)));
  const UniqueFd server = Socket(outside_.get(), SOCK_STREAM, "10.2.0.7", 7000, true);
  const Outcome outcome = Connect(pod.netns.get(), "10.2.0.7", 7000, server.get());
  EXPECT_TRUE(outcome.ok()) << outcome.error;
  EXPECT_EQ(outcome.source, pod.ips[0]);
  const UniqueFd here = Socket(pod.netns.get(), SOCK_STREAM, pod.ips[0], 7001, true);
  EXPECT_TRUE(Connect(outside_.get(), pod.ips[0], 7001, here.get()).ok());
}

TEST_F(NodeRoutesTest, AForeignRouteStaysAndIsTold) {
  Command("ip route add 10.2.0.0/24 via 192.0.2.77");
  auto routes = NodeRoutes::Open({});
  ASSERT_OK(routes);
  EXPECT_EQ((*routes)->Apply({Peer("10.2.0.0/24", "192.0.2.1")}, Self()).value(),
            std::vector<std::string>{"route 10.2.0.0/24 by 192.0.2.1: a foreign route is there"});
  ASSERT_OK((*routes)->Apply({}, Self()));
  ASSERT_OK((*routes)->Remove());
  EXPECT_NE(Command("ip route show 10.2.0.0/24").find("via 192.0.2.77"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::netproxy
