// SPDX-License-Identifier: Apache-2.0
#include "netproxy/routes/plan.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "netproxy/routes/tunnel.h"

namespace holdfast::netproxy {
namespace {

IpAddress Ip(const std::string& text) { return IpAddress::Parse(text).value(); }
std::vector<Cidr> Ranges(const std::vector<std::string>& texts) {
  std::vector<Cidr> out;
  for (const std::string& text : texts) out.push_back(Cidr::Parse(text).value());
  return out;
}
NodePeer Peer(const std::string& name, const std::vector<std::string>& ranges,
              const std::vector<std::string>& addresses) {
  NodePeer peer{name, Ranges(ranges), {}};
  for (const std::string& address : addresses) peer.addresses.push_back(Ip(address));
  return peer;
}
// eth0 is link 2, eth1 link 3.
const std::vector<sys::Address>& Local() {
  static const std::vector<sys::Address> local = {{Ip("127.0.0.1"), 8, 1},
                                                  {Ip("10.1.0.1"), 32, 1},
                                                  {Ip("192.0.2.1"), 24, 2},
                                                  {Ip("2001:db8:0:1::1"), 64, 2},
                                                  {Ip("198.51.100.1"), 24, 3}};
  return local;
}
NodePeer Self() { return Peer("self", {"10.1.0.0/24"}, {"192.0.2.1", "2001:db8:0:1::1"}); }
std::string Text(const RoutePlan& plan) {
  std::string out;
  for (const sys::Route& route : plan.routes) {
    out += StrCat(route.destination.ToString(), " via ", route.gateway->ToString(), " link ",
                  route.link, "\n");
  }
  for (const TunnelledRange& one : plan.tunnelled) {
    out += StrCat(one.range.ToString(), " through the tunnel to ", one.node.ToString(), "\n");
  }
  for (const std::string& problem : plan.problems) out += problem + "\n";
  return out;
}

TEST(PlanRoutesTest, EachRangeGoesByAnAddressOfItsFamilyThatIsOnALink) {
  EXPECT_EQ(Text(PlanRoutes(
                {Peer("n3", {"10.3.0.0/24"}, {"203.0.113.3", "198.51.100.3"}),
                 Peer("n2", {"10.2.0.0/24", "fd00:2::/64"}, {"192.0.2.2", "2001:db8:0:1::2"})},
                Local(), Self(), true)),
            "10.2.0.0/24 via 192.0.2.2 link 2\n"
            "10.3.0.0/24 via 198.51.100.3 link 3\n"
            "fd00:2::/64 via 2001:db8:0:1::2 link 2\n");
}

TEST(PlanRoutesTest, WhatHasNoWayIsTold) {
  EXPECT_EQ(Text(PlanRoutes({Peer("far", {"10.2.0.0/24"}, {"203.0.113.3"}),
                             Peer("v4", {"fd00:2::/64"}, {"192.0.2.4"}), Peer("new", {}, {})},
                            Local(), Self(), false)),
            "no route to the pods of node far (10.2.0.0/24): none of its addresses is on a link of "
            "this node\n"
            "no route to the pods of node v4 (fd00:2::/64): it has no address of this family\n");
}

TEST(PlanRoutesTest, NodesBehindARouterAreReachedThroughTheTunnelOfTheFamily) {
  const std::vector<NodePeer> peers = {
      Peer("far", {"10.2.0.0/24", "fd00:2::/64"}, {"203.0.113.3", "203.0.113.4", "2001:db8:9::3"}),
      Peer("near", {"10.3.0.0/24"}, {"203.0.113.5", "198.51.100.5"})};
  EXPECT_EQ(Text(PlanRoutes(peers, Local(), Self(), true)),
            "10.3.0.0/24 via 198.51.100.5 link 3\n"
            "10.2.0.0/24 through the tunnel to 203.0.113.3\n"
            "fd00:2::/64 through the tunnel to 2001:db8:9::3\n");
  const NodePeer v4 = Peer("self", {"10.1.0.0/24"}, {"192.0.2.1"});
  EXPECT_EQ(Text(PlanRoutes(peers, Local(), v4, true)),
            "10.3.0.0/24 via 198.51.100.5 link 3\n"
            "10.2.0.0/24 through the tunnel to 203.0.113.3\n"
            "no route to the pods of node far (fd00:2::/64): this node has none of this family\n");
}

// All nodes of a cluster must come to the same, whatever their version.
TEST(TunnelTest, WhatANodeIsInItFollowsFromItsAddress) {
  const auto text = [](const IpAddress& node) {
    std::string out;
    for (const uint8_t byte : TunnelEnd(node)) {
      char hex[4];
      (void)std::snprintf(hex, sizeof hex, "%02x:", byte);
      out += hex;
    }
    return StrCat(out, " ", TunnelNextHop(node).ToString());
  };
  EXPECT_EQ(text(Ip("198.51.100.2")), "02:68:c6:33:64:02: 198.51.100.2");
  EXPECT_EQ(text(Ip("2001:db8:9::3")), "02:2d:f1:e5:8b:80: fe80::2d:f1ff:fee5:8b80");
}

TEST(PlanRoutesTest, NobodyTakesARangeOfAnother) {
  EXPECT_EQ(
      Text(PlanRoutes(
          {Peer("a", {"10.1.0.0/25"}, {"192.0.2.2"}), Peer("b", {"10.4.0.0/16"}, {"192.0.2.3"}),
           Peer("c", {"10.4.7.0/24"}, {"192.0.2.4"}), Peer("d", {"10.0.0.0/8"}, {"192.0.2.5"})},
          Local(), Self(), true)),
      "10.4.0.0/16 via 192.0.2.3 link 2\n"
      "no route to the pods of node a (10.1.0.0/25): it overlaps 10.1.0.0/24 of this node\n"
      "no route to the pods of node c (10.4.7.0/24): it overlaps 10.4.0.0/16 of node b\n"
      "no route to the pods of node d (10.0.0.0/8): it overlaps 10.1.0.0/24 of this node\n");
}

TEST(AggregateTest, HalvesBecomeOneAndWhatIsWithinGoes) {
  EXPECT_EQ(Aggregate(Ranges({"10.0.3.0/24", "10.0.0.0/24", "10.0.2.0/24", "10.0.1.0/24"})),
            Ranges({"10.0.0.0/22"}));
  EXPECT_EQ(Aggregate(Ranges({"10.0.1.0/24", "10.0.2.0/24"})),
            Ranges({"10.0.1.0/24", "10.0.2.0/24"}));
  EXPECT_EQ(Aggregate(Ranges({"10.0.0.0/8", "10.1.0.0/24", "10.1.0.7/32", "11.0.0.0/32"})),
            Ranges({"10.0.0.0/8", "11.0.0.0/32"}));
  EXPECT_EQ(Aggregate(Ranges({"fd00::/65", "fd00:0:0:0:8000::/65", "0.0.0.0/1", "128.0.0.0/1"})),
            Ranges({"0.0.0.0/0", "fd00::/64"}));
  EXPECT_TRUE(Aggregate({}).empty());
}

// 256 ranges side by side, whatever their order, each address once.
TEST(AggregateTest, ManyNodesAreOneRange) {
  std::vector<Cidr> ranges;
  for (int i = 0; i < 256; ++i) {
    ranges.push_back(Cidr::Parse(StrCat("10.244.", (i * 37) % 256, ".0/24")).value());
  }
  EXPECT_EQ(Aggregate(ranges), Ranges({"10.244.0.0/16"}));
}

}  // namespace
}  // namespace holdfast::netproxy
