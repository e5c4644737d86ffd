// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/wiring.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "holdfast/sys/sysctl.h"
#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::netproxy {
namespace {

class BothFamilies : public NetFixture, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Families, BothFamilies, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "IPv6" : "IPv4"; });

TEST_P(BothFamilies, NodeReachesPodAndIsSeenByItsGatewayAddress) {
  Pod pod = MakePod("web");
  ASSERT_EQ(pod.ips, (std::vector<std::string>{"10.88.0.2", "fd00:88::2"}));
  UniqueFd server = Socket(pod.netns.get(), SOCK_STREAM, AnyOf(pod.ip(GetParam())), 80, true);
  const Outcome got = Connect(node_.get(), pod.ip(GetParam()), 80, server.get());
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.source, GetParam() ? "fd00:88::1" : "10.88.0.1");
}

TEST_P(BothFamilies, PodReachesNodeWithItsOwnAddress) {
  Pod pod = MakePod("web");
  const std::string node_ip = GetParam() ? "2001:db8::2" : "192.0.2.2";
  UniqueFd server = Socket(node_.get(), SOCK_STREAM, node_ip, 9000, true);
  const Outcome got = Connect(pod.netns.get(), node_ip, 9000, server.get());
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.source, pod.ip(GetParam()));
}

TEST_P(BothFamilies, PodsReachEachOtherWithTheirOwnAddresses) {
  Pod a = MakePod("a");
  Pod b = MakePod("b");
  UniqueFd server = Socket(b.netns.get(), SOCK_STREAM, AnyOf(b.ip(GetParam())), 80, true);
  const Outcome got = Connect(a.netns.get(), b.ip(GetParam()), 80, server.get());
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.source, a.ip(GetParam()));
}

TEST_P(BothFamilies, AddressOfNoPodIsUnreachableAndDoesNotLeaveTheNode) {
  Pod pod = MakePod("web");
  const Outcome got = Connect(pod.netns.get(), GetParam() ? "fd00:88::77" : "10.88.0.77", 80, -1);
  EXPECT_EQ(got.error, GetParam() ? "ENETUNREACH" : "EHOSTUNREACH");
}

TEST_P(BothFamilies, PodReachesOutsideWithTheAddressOfTheNode) {
  Pod pod = MakePod("web");
  const std::string outside_ip = GetParam() ? "2001:db8::1" : "192.0.2.1";
  UniqueFd server = Socket(outside_.get(), SOCK_STREAM, outside_ip, 443, true);
  const Outcome got = Connect(pod.netns.get(), outside_ip, 443, server.get());
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.source, GetParam() ? "2001:db8::2" : "192.0.2.2");
}

TEST_P(BothFamilies, SpoofedSourceIsDropped) {
  Pod a = MakePod("a");
  Pod b = MakePod("b");
  const std::string node_ip = GetParam() ? "2001:db8::2" : "192.0.2.2";
  UniqueFd server = Socket(node_.get(), SOCK_DGRAM, node_ip, 9000, false);
  UniqueFd honest = Socket(a.netns.get(), SOCK_DGRAM, a.ip(GetParam()), 7000, false);
  EXPECT_EQ(SendDatagram(honest.get(), node_ip, 9000, server.get()), a.ip(GetParam()));
  const std::string stranger = GetParam() ? "2001:db8::1" : "192.0.2.1";
  for (const std::string& forged : {b.ip(GetParam()), stranger}) {
    UniqueFd liar = Socket(a.netns.get(), SOCK_DGRAM, forged, 7001, false, /*transparent=*/true);
    EXPECT_EQ(SendDatagram(liar.get(), node_ip, 9000, server.get(), kRefusalMs), "") << forged;
  }
  // Each of the two guards is enough: the rule without the kernel's own check, and (for IPv4) the
  // other way round, while somebody has flushed the rules.
  UniqueFd liar =
      Socket(a.netns.get(), SOCK_DGRAM, b.ip(GetParam()), 7002, false, /*transparent=*/true);
  ASSERT_OK(sys::WriteSysctl(StrCat("net/ipv4/conf/", InterfaceOf(a), "/rp_filter"), "0"));
  EXPECT_EQ(SendDatagram(liar.get(), node_ip, 9000, server.get(), kRefusalMs), "");
  Command("nft flush ruleset");
  EXPECT_EQ(SendDatagram(liar.get(), node_ip, 9000, server.get()), b.ip(GetParam()))
      << "the test itself";
  if (GetParam()) return;
  ASSERT_OK(sys::WriteSysctl(StrCat("net/ipv4/conf/", InterfaceOf(a), "/rp_filter"), "1"));
  EXPECT_EQ(SendDatagram(liar.get(), node_ip, 9000, server.get(), kRefusalMs), "");
}

TEST_P(BothFamilies, FlushedRulesComeBackWithEnsure) {
  Pod pod = MakePod("web");
  const std::string before = Command("nft list ruleset");
  Command("nft flush ruleset");
  ASSERT_OK(net_->Ensure());
  EXPECT_EQ(Command("nft list ruleset"), before);
}

class Wiring : public NetFixture {};

TEST_F(Wiring, MtuIsThatOfTheUplink) {
  Pod pod = MakePod("web");
  auto node = sys::Rtnl::Open();
  auto inside = sys::Rtnl::OpenIn(pod.netns.get());
  EXPECT_EQ(node->GetLink(InterfaceOf(pod))->mtu, uplink_mtu_);
  EXPECT_EQ(inside->GetLink("eth0")->mtu, uplink_mtu_);
}

TEST_F(Wiring, MtuIsTheSmallestOfSeveralUplinks) {
  auto node = sys::Rtnl::Open();
  auto elsewhere = sys::NewNetworkNamespace();
  ASSERT_OK(node->AddVeth({.name = "up1",
                           .mac = {2, 0, 0, 0, 0, 4},
                           .mtu = 1300,
                           .peer_netns = elsewhere->get(),
                           .peer_name = "eth0",
                           .peer_mac = {2, 0, 0, 0, 0, 3}}));
  Address(*node, "up1", "198.51.100.2", 24);
  Command("ip route add default via 198.51.100.1 dev up1 metric 100");
  ASSERT_OK(net_->Ensure());
  Pod pod = MakePod("web");
  EXPECT_EQ(node->GetLink(InterfaceOf(pod))->mtu, 1300u);
}

TEST_F(Wiring, BothEndsHaveOneQueueWhateverTheMachine) {
  Pod pod = MakePod("web");
  const std::string queues = "numtxqueues 1 numrxqueues 1 ";
  EXPECT_NE(Command("ip -d link show " + InterfaceOf(pod)).find(queues), std::string::npos);
  ASSERT_OK(sys::RunInNetworkNamespace(pod.netns.get(), [&]() -> Result<void> {
    EXPECT_NE(Command("ip -d link show eth0").find(queues), std::string::npos);
    return {};
  }));
}

TEST_F(Wiring, LoopbackIsUpInThePodAndItsInterfaceIsNamedEth0) {
  Pod pod = MakePod("web");
  auto inside = sys::Rtnl::OpenIn(pod.netns.get());
  EXPECT_TRUE(inside->GetLink("lo")->up);
  EXPECT_TRUE(inside->GetLink("eth0")->up);
  UniqueFd server = Socket(pod.netns.get(), SOCK_STREAM, "127.0.0.1", 80, true);
  EXPECT_EQ(Connect(pod.netns.get(), "127.0.0.1", 80, server.get()).error, "");
}

TEST_F(Wiring, PodCannotSteerTheNodeByRouterAdvertisementsOrRedirects) {
  Pod pod = MakePod("web");
  const std::string name = InterfaceOf(pod);
  EXPECT_EQ(sys::ReadSysctl("net/ipv6/conf/" + name + "/accept_ra").value(), "0");
  EXPECT_EQ(sys::ReadSysctl("net/ipv6/conf/" + name + "/accept_redirects").value(), "0");
  EXPECT_EQ(sys::ReadSysctl("net/ipv4/conf/" + name + "/accept_redirects").value(), "0");
  EXPECT_EQ(sys::ReadSysctl("net/ipv4/conf/" + name + "/rp_filter").value(), "1");
  EXPECT_EQ(sys::ReadSysctl("net/ipv4/conf/" + name + "/route_localnet").value(), "0");
  EXPECT_EQ(sys::ReadSysctl("net/ipv6/conf/" + name + "/addr_gen_mode").value(), "1");
}

TEST_F(Wiring, PodIsNotSteeredByRouterAdvertisementsOrRedirects) {
  Pod pod = MakePod("web");
  ASSERT_OK(sys::RunInNetworkNamespace(pod.netns.get(), []() -> Result<void> {
    EXPECT_EQ(sys::ReadSysctl("net/ipv4/conf/eth0/accept_redirects").value(), "0");
    EXPECT_EQ(sys::ReadSysctl("net/ipv6/conf/eth0/accept_redirects").value(), "0");
    EXPECT_EQ(sys::ReadSysctl("net/ipv6/conf/eth0/accept_ra").value(), "0");
    EXPECT_EQ(sys::ReadSysctl("net/ipv4/conf/lo/accept_redirects").value(), "1")
        << "the test itself";
    return {};
  }));
}

// Each one that is asked for takes a place in a table that all network namespaces share.
TEST_F(Wiring, PodAsksNobodyForAHardwareAddress) {
  Pod pod = MakePod("web");
  ASSERT_OK(sys::RunInNetworkNamespace(pod.netns.get(), []() -> Result<void> {
    EXPECT_EQ(sys::ReadSysctl("net/ipv4/neigh/eth0/mcast_solicit").value(), "0");
    EXPECT_EQ(sys::ReadSysctl("net/ipv6/neigh/eth0/mcast_solicit").value(), "0");
    EXPECT_EQ(sys::ReadSysctl("net/ipv6/neigh/lo/mcast_solicit").value(), "3") << "the test itself";
    return {};
  }));
}

TEST_F(Wiring, ForwardingDoesNotEndRouterAdvertisementsOfAnUplink) {
  ASSERT_OK(net_->RemoveNodeParts());  // a new namespace takes some values over from the machine's
  ASSERT_OK(sys::WriteSysctl("net/ipv4/ip_forward", "0"));
  ASSERT_OK(sys::WriteSysctl("net/ipv6/conf/all/forwarding", "0"));
  ASSERT_OK(sys::WriteSysctl("net/ipv6/conf/up0/accept_ra", "1"));
  ASSERT_OK(net_->Ensure());
  EXPECT_EQ(sys::ReadSysctl("net/ipv6/conf/all/forwarding").value(), "1");
  EXPECT_EQ(sys::ReadSysctl("net/ipv6/conf/up0/accept_ra").value(), "2");
  ASSERT_OK(net_->RemoveNodeParts());
  EXPECT_EQ(sys::ReadSysctl("net/ipv6/conf/all/forwarding").value(), "0");
  EXPECT_EQ(sys::ReadSysctl("net/ipv4/ip_forward").value(), "0");
  EXPECT_EQ(sys::ReadSysctl("net/ipv6/conf/up0/accept_ra").value(), "1");
}

TEST_F(Wiring, NodeWithoutAnyAddressReachesItsPods) {
  Command("ip link del up0");
  ASSERT_OK(net_->Ensure());
  Pod pod = MakePod("web");
  for (bool v6 : {false, true}) {
    UniqueFd server = Socket(pod.netns.get(), SOCK_STREAM, AnyOf(pod.ip(v6)), 80, true);
    EXPECT_EQ(Connect(node_.get(), pod.ip(v6), 80, server.get()).error, "");
  }
}

TEST_F(Wiring, LoopbackListenerOfTheNodeIsOutOfReachForAPodEvenWithRouteLocalnet) {
  Pod pod = MakePod("web");
  ASSERT_OK(sys::WriteSysctl("net/ipv4/conf/all/route_localnet", "1"));
  UniqueFd server = Socket(node_.get(), SOCK_DGRAM, "127.0.0.1", 9000, false);
  UniqueFd client = Socket(pod.netns.get(), SOCK_DGRAM, pod.ip(false), 7000, false);
  ASSERT_OK(sys::RunInNetworkNamespace(
      pod.netns.get(), [] { return sys::WriteSysctl("net/ipv4/conf/all/route_localnet", "1"); }));
  ASSERT_OK(sys::RunInNetworkNamespace(pod.netns.get(), []() -> Result<void> {
    Command("ip addr del 127.0.0.1/8 dev lo");
    Command("ip route add 127.0.0.1/32 via 169.254.1.1 dev eth0 onlink");
    return {};
  }));
  EXPECT_EQ(SendDatagram(client.get(), "127.0.0.1", 9000, server.get(), kRefusalMs), "");
  Command("nft flush chain ip holdfast spoofed");
  EXPECT_EQ(SendDatagram(client.get(), "127.0.0.1", 9000, server.get(), kRefusalMs), "")
      << "the second of two guards, alone";
  Command("nft delete chain ip holdfast loopback");
  EXPECT_EQ(SendDatagram(client.get(), "127.0.0.1", 9000, server.get()), pod.ip(false))
      << "the test itself";
}

}  // namespace
}  // namespace holdfast::netproxy
