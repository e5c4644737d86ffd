// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::netproxy {
namespace {

using enum HostPort::Protocol;

class HostPorts : public NetFixture, public ::testing::WithParamInterface<bool> {
 protected:
  std::string NodeIp() const { return GetParam() ? "2001:db8::2" : "192.0.2.2"; }
  std::string OutsideIp() const { return GetParam() ? "2001:db8::1" : "192.0.2.1"; }
  std::string GatewayIp() const { return GetParam() ? "fd00:88::1" : "10.88.0.1"; }
  UniqueFd Server(const Pod& pod, int type, uint16_t port) {
    return Socket(pod.netns.get(), type, AnyOf(pod.ip(GetParam())), port, type == SOCK_STREAM);
  }
};
INSTANTIATE_TEST_SUITE_P(Families, HostPorts, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "IPv6" : "IPv4"; });

TEST_P(HostPorts, TcpFromOutsideKeepsTheClientsAddress) {
  Pod pod = MakePod("web", {{"", 8080, 80, kTcp}});
  UniqueFd server = Server(pod, SOCK_STREAM, 80);
  const Outcome got = Connect(outside_.get(), NodeIp(), 8080, server.get());
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.source, OutsideIp());
}

TEST_P(HostPorts, TcpFromTheNodeItself) {
  Pod pod = MakePod("web", {{"", 8080, 80, kTcp}});
  UniqueFd server = Server(pod, SOCK_STREAM, 80);
  const Outcome got = Connect(node_.get(), NodeIp(), 8080, server.get());
  EXPECT_EQ(got.error, "");
}

TEST_P(HostPorts, TcpFromAnotherPodKeepsItsAddress) {
  Pod pod = MakePod("web", {{"", 8080, 80, kTcp}});
  Pod client = MakePod("client");
  UniqueFd server = Server(pod, SOCK_STREAM, 80);
  const Outcome got = Connect(client.netns.get(), NodeIp(), 8080, server.get());
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.source, client.ip(GetParam()));
}

TEST_P(HostPorts, PodReachesItselfByItsOwnHostPort) {
  Pod pod = MakePod("web", {{"", 8080, 80, kTcp}});
  UniqueFd server = Server(pod, SOCK_STREAM, 80);
  const Outcome got = Connect(pod.netns.get(), NodeIp(), 8080, server.get());
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.source, GatewayIp()) << "not its own address, which it would drop";
}

TEST_P(HostPorts, LoopbackOfTheNodeStaysLoopback) {
  Pod pod = MakePod("web", {{"", 8080, 80, kTcp}});
  UniqueFd server = Server(pod, SOCK_STREAM, 80);
  const std::string loopback = GetParam() ? "::1" : "127.0.0.1";
  EXPECT_EQ(Connect(node_.get(), loopback, 8080, server.get()).error, "ECONNREFUSED");
  UniqueFd local = Socket(node_.get(), SOCK_STREAM, loopback, 8080, true);
  EXPECT_EQ(Connect(node_.get(), loopback, 8080, local.get()).error, "");
}

TEST_P(HostPorts, ForwardedPacketsToTheSamePortAreNotGrabbed) {
  Pod pod = MakePod("web", {{"", 443, 80, kTcp}});
  Pod client = MakePod("client");
  UniqueFd real = Socket(outside_.get(), SOCK_STREAM, OutsideIp(), 443, true);
  EXPECT_EQ(Connect(client.netns.get(), OutsideIp(), 443, real.get()).error, "");
}

TEST_P(HostPorts, HostIpOfAnotherMachineGrabsNothing) {
  Pod pod = MakePod("web", {{OutsideIp(), 53, 80, kTcp}});
  Pod client = MakePod("client");
  UniqueFd real = Socket(outside_.get(), SOCK_STREAM, OutsideIp(), 53, true);
  EXPECT_EQ(Connect(client.netns.get(), OutsideIp(), 53, real.get()).error, "");
}

TEST_P(HostPorts, HostIpLimitsThePortToOneAddress) {
  Command(GetParam() ? "ip addr add 2001:db8::22/64 dev up0 nodad"
                     : "ip addr add 192.0.2.22/24 dev up0");
  Pod pod = MakePod("web", {{NodeIp(), 8080, 80, kTcp}});
  UniqueFd server = Server(pod, SOCK_STREAM, 80);
  EXPECT_EQ(Connect(outside_.get(), NodeIp(), 8080, server.get()).error, "");
  EXPECT_EQ(Connect(outside_.get(), GetParam() ? "2001:db8::22" : "192.0.2.22", 8080, -1).error,
            "ECONNREFUSED");
}

TEST_P(HostPorts, UdpFromOutsideFromTheNodeAndHairpin) {
  Pod pod = MakePod("dns", {{"", 53, 5353, kUdp}});
  UniqueFd server = Server(pod, SOCK_DGRAM, 5353);
  UniqueFd outside = Socket(outside_.get(), SOCK_DGRAM, OutsideIp(), 7000, false);
  EXPECT_EQ(SendDatagram(outside.get(), NodeIp(), 53, server.get()), OutsideIp());
  UniqueFd node = Socket(node_.get(), SOCK_DGRAM, NodeIp(), 7000, false);
  EXPECT_EQ(SendDatagram(node.get(), NodeIp(), 53, server.get()), NodeIp());
  UniqueFd itself = Socket(pod.netns.get(), SOCK_DGRAM, pod.ip(GetParam()), 7000, false);
  EXPECT_EQ(SendDatagram(itself.get(), NodeIp(), 53, server.get()), GatewayIp());
}

TEST_P(HostPorts, UdpSenderReachesTheNextPodAtOnce) {
  UniqueFd sender = Socket(outside_.get(), SOCK_DGRAM, OutsideIp(), 7000, false);
  UniqueFd early = Socket(node_.get(), SOCK_DGRAM, NodeIp(), 53, false);
  EXPECT_EQ(SendDatagram(sender.get(), NodeIp(), 53, early.get()), OutsideIp())
      << "no pod yet: the node's own";
  Pod first = MakePod("first", {{"", 53, 5353, kUdp}});
  UniqueFd first_server = Server(first, SOCK_DGRAM, 5353);
  EXPECT_EQ(SendDatagram(sender.get(), NodeIp(), 53, first_server.get()), OutsideIp())
      << "pod came";
  ASSERT_OK(net_->Teardown(first.request.uid));
  EXPECT_EQ(SendDatagram(sender.get(), NodeIp(), 53, early.get()), OutsideIp()) << "pod went";
  Pod second = MakePod("second", {{"", 53, 5353, kUdp}});
  UniqueFd second_server = Server(second, SOCK_DGRAM, 5353);
  EXPECT_EQ(SendDatagram(sender.get(), NodeIp(), 53, second_server.get()), OutsideIp())
      << "next pod came";
}

TEST_P(HostPorts, FlowsOfOthersSurviveAChangeOfAHostPort) {
  // A pod's own query to the same port elsewhere keeps its translation: same source port outside.
  Pod client = MakePod("client");
  UniqueFd outside = Socket(outside_.get(), SOCK_DGRAM, OutsideIp(), 53, false);
  UniqueFd query = Socket(client.netns.get(), SOCK_DGRAM, client.ip(GetParam()), 7000, false);
  const auto seen_port = [&] {
    SockAddr to = SockAddr::Of(OutsideIp(), 53);
    char byte = 'x';
    EXPECT_EQ(::sendto(query.get(), &byte, 1, 0, to.get(), to.size), 1);
    EXPECT_TRUE(WaitFor(outside.get(), POLLIN, kTimeoutMs));
    sockaddr_in6 from{};
    socklen_t size = sizeof from;
    EXPECT_EQ(::recvfrom(outside.get(), &byte, 1, 0, reinterpret_cast<sockaddr*>(&from), &size), 1);
    return from.sin6_port;  // the same place in sockaddr_in
  };
  const auto before = seen_port();
  Pod pod = MakePod("dns", {{"", 53, 5353, kUdp}});
  EXPECT_EQ(seen_port(), before);
  ASSERT_OK(net_->Teardown(pod.request.uid));
  EXPECT_EQ(seen_port(), before);
}

TEST_P(HostPorts, PortOfALivePodIsRefusedNamingIt) {
  Pod pod = MakePod("web", {{"", 8080, 80, kTcp}, {NodeIp(), 9090, 90, kUdp}});
  auto taken = TryPod("late", {{NodeIp(), 8080, 80, kTcp}});
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code(), Code::kConflict);
  EXPECT_NE(taken.error().message().find("held by pod default/web"), std::string::npos)
      << taken.error().message();
  EXPECT_TRUE(net_->Addresses(PodUid("uid-late")).empty()) << "a refusal changes nothing";
  EXPECT_TRUE(TryPod("udp", {{"", 8080, 80, kUdp}}));
  ASSERT_OK(net_->Teardown(pod.request.uid));
  EXPECT_TRUE(TryPod("late", {{NodeIp(), 8080, 80, kTcp}}));
}

TEST_P(HostPorts, SurviveARestartOfTheAgent) {
  Pod pod = MakePod("web", {{"", 8080, 80, kTcp}});
  UniqueFd server = Server(pod, SOCK_STREAM, 80);
  const std::string before = Command("nft -a list ruleset");
  Reopen();
  EXPECT_EQ(Command("nft -a list ruleset"), before) << "not rewritten: the handles are the same";
  EXPECT_EQ(Connect(outside_.get(), NodeIp(), 8080, server.get()).error, "");
  auto taken = TryPod("late", {{"", 8080, 80, kTcp}});
  EXPECT_FALSE(taken);
}

TEST_P(HostPorts, ChangedPortsOfAPodReplaceTheOldOnes) {
  Pod pod = MakePod("web", {{"", 8080, 80, kTcp}});
  UniqueFd server = Server(pod, SOCK_STREAM, 80);
  pod.request.host_ports = {{"", 8081, 80, kTcp}};
  ASSERT_OK(net_->Setup(pod.request));
  EXPECT_EQ(Connect(outside_.get(), NodeIp(), 8080, -1).error, "ECONNREFUSED");
  EXPECT_EQ(Connect(outside_.get(), NodeIp(), 8081, server.get()).error, "");
}

}  // namespace
}  // namespace holdfast::netproxy
