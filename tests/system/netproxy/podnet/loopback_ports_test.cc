// SPDX-License-Identifier: Apache-2.0
// hostPorts of the node's loopback: for programs of the node, and for nobody else. IPv4 alone has them.
#include <gtest/gtest.h>

#include "holdfast/sys/sysctl.h"
#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::netproxy {
namespace {

using enum HostPort::Protocol;

constexpr char kLoopback[] = "127.0.0.1";
constexpr char kNodeIp[] = "192.0.2.2";
constexpr char kOutsideIp[] = "192.0.2.1";
constexpr char kGatewayIp[] = "10.88.0.1";  // what a pod sees of the node

struct Exchange {
  std::string seen;      // by the server: whose datagram it is; "": none came
  std::string answered;  // by the client: whose answer it is
  bool operator==(const Exchange&) const = default;
};

// One datagram there and one back.
Exchange Exchanged(int client, const std::string& ip, uint16_t port, int server) {
  SockAddr to = SockAddr::Of(ip, port);
  char byte = 'x';
  Exchange out;
  if (::sendto(client, &byte, 1, 0, to.get(), to.size) != 1) return {::strerrorname_np(errno), ""};
  if (!WaitFor(server, POLLIN, kTimeoutMs)) return out;
  SockAddr from;
  from.size = sizeof from.storage;
  if (::recvfrom(server, &byte, 1, 0, from.get(), &from.size) != 1) return out;
  out.seen = from.ip();
  ::sendto(server, &byte, 1, 0, from.get(), from.size);
  if (!WaitFor(client, POLLIN, kTimeoutMs)) return out;
  from.size = sizeof from.storage;
  if (::recvfrom(client, &byte, 1, 0, from.get(), &from.size) == 1) out.answered = from.ip();
  return out;
}

class LoopbackPorts : public NetFixture {
 protected:
  // What `netns` sends to 127.0.0.1 leaves it for the node, as an attacker would have it.
  static void SendLoopbackTo(int netns, const std::string& gateway) {
    ASSERT_OK(sys::RunInNetworkNamespace(netns, [&]() -> Result<void> {
      RETURN_IF_ERROR(sys::WriteSysctl("net/ipv4/conf/all/route_localnet", "1"));
      Command(
          StrCat("ip route replace 127.0.0.1/32 via ", gateway, " dev eth0 onlink table local"));
      return {};
    }));
  }
  std::string RouteLocalnet(const Pod& pod) const {
    return sys::ReadSysctl("net/ipv4/conf/" + InterfaceOf(pod) + "/route_localnet").value_or("");
  }
};

TEST_F(LoopbackPorts, ProgramsOfTheNodeGetThere) {
  Pod pod = MakePod("web", {{kLoopback, 8080, 80, kTcp}, {kLoopback, 53, 5353, kUdp}});
  UniqueFd server = Socket(pod.netns.get(), SOCK_STREAM, "0.0.0.0", 80, true);
  const Outcome got = Connect(node_.get(), kLoopback, 8080, server.get());
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.source, kGatewayIp) << "a pod could not answer to 127.0.0.1";
  UniqueFd dns = Socket(pod.netns.get(), SOCK_DGRAM, "0.0.0.0", 5353, false);
  UniqueFd local = Socket(node_.get(), SOCK_DGRAM, kLoopback, 7000, false);
  EXPECT_EQ(Exchanged(local.get(), kLoopback, 53, dns.get()), (Exchange{kGatewayIp, kLoopback}));
  // As `curl --interface` does.
  UniqueFd bound = Socket(node_.get(), SOCK_DGRAM, kNodeIp, 7000, false);
  EXPECT_EQ(Exchanged(bound.get(), kLoopback, 53, dns.get()), (Exchange{kNodeIp, kLoopback}));
}

TEST_F(LoopbackPorts, EachAddressHasItsOwnPod) {
  Pod inner = MakePod("inner", {{kLoopback, 8080, 80, kTcp}});
  Pod other = MakePod("other", {{"127.0.0.2", 8080, 80, kTcp}});
  Pod outer = MakePod("outer", {{kNodeIp, 8080, 80, kTcp}});
  Pod datagrams = MakePod("datagrams", {{kNodeIp, 8080, 80, kUdp}});
  for (const auto& [ip, pod] :
       {std::pair{kLoopback, &inner}, std::pair{"127.0.0.2", &other}, std::pair{kNodeIp, &outer}}) {
    UniqueFd server = Socket(pod->netns.get(), SOCK_STREAM, "0.0.0.0", 80, true);
    EXPECT_EQ(Connect(node_.get(), ip, 8080, server.get()).error, "") << ip;
  }
  EXPECT_EQ(Connect(node_.get(), "127.0.0.3", 8080, -1).error, "ECONNREFUSED");
  EXPECT_EQ(Connect(node_.get(), kLoopback, 8081, -1).error, "ECONNREFUSED");
  auto taken = TryPod("late", {{kLoopback, 8080, 80, kTcp}});
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code(), Code::kConflict);
}

TEST_F(LoopbackPorts, GoWithTheirPod) {
  Pod pod = MakePod("web", {{kLoopback, 8080, 80, kTcp}});
  UniqueFd local = Socket(node_.get(), SOCK_STREAM, kLoopback, 8080, true);
  UniqueFd server = Socket(pod.netns.get(), SOCK_STREAM, "0.0.0.0", 80, true);
  Reopen();
  EXPECT_EQ(Connect(node_.get(), kLoopback, 8080, server.get()).error, "");
  ASSERT_OK(net_->Teardown(pod.request.uid));
  EXPECT_EQ(Connect(node_.get(), kLoopback, 8080, local.get()).error, "");
}

TEST_F(LoopbackPorts, RouteLocalnetIsOfTheirPodsLinkAlone) {
  const auto of_all = [] {
    return sys::ReadSysctl("net/ipv4/conf/all/route_localnet").value_or("");
  };
  const std::string before = of_all();
  ASSERT_OK(sys::WriteSysctl("net/ipv4/conf/default/route_localnet", "1"));
  Pod pod = MakePod("web", {{kLoopback, 8080, 80, kTcp}});
  Pod other = MakePod("other", {{kNodeIp, 8080, 80, kTcp}});
  EXPECT_EQ(RouteLocalnet(pod), "1");
  EXPECT_EQ(RouteLocalnet(other), "0") << "whatever a new link takes over";
  EXPECT_EQ(of_all(), before);
  pod.request.host_ports.clear();
  ASSERT_OK(net_->Setup(pod.request));
  EXPECT_EQ(RouteLocalnet(pod), "0");
}

// CVE-2020-8558: route_localnet on its link would let the pod at whatever listens on the node's loopback.
TEST_F(LoopbackPorts, TheirPodDoesNotReachTheNodesLoopback) {
  Pod pod = MakePod("web", {{kLoopback, 8080, 80, kTcp}});
  SendLoopbackTo(pod.netns.get(), "169.254.1.1");
  UniqueFd server = Socket(node_.get(), SOCK_DGRAM, kLoopback, 9000, false);
  UniqueFd client = Socket(pod.netns.get(), SOCK_DGRAM, pod.ip(false), 7000, false);
  EXPECT_EQ(SendDatagram(client.get(), kLoopback, 9000, server.get(), kRefusalMs), "");
  Command("nft delete chain ip holdfast loopback");
  EXPECT_EQ(SendDatagram(client.get(), kLoopback, 9000, server.get(), kRefusalMs), "")
      << "the second of two guards, alone";
  Command("nft flush chain ip holdfast spoofed");
  EXPECT_EQ(SendDatagram(client.get(), kLoopback, 9000, server.get()), pod.ip(false))
      << "the test itself";
}

TEST_F(LoopbackPorts, NeighboursAndPodsDoNotReachThePort) {
  Pod pod = MakePod("dns", {{kLoopback, 53, 5353, kUdp}});
  Pod other = MakePod("other");
  UniqueFd server = Socket(pod.netns.get(), SOCK_DGRAM, "0.0.0.0", 5353, false);
  SendLoopbackTo(outside_.get(), kNodeIp);
  SendLoopbackTo(other.netns.get(), "169.254.1.1");
  UniqueFd neighbour = Socket(outside_.get(), SOCK_DGRAM, kOutsideIp, 7000, false);
  UniqueFd stranger = Socket(other.netns.get(), SOCK_DGRAM, other.ip(false), 7000, false);
  EXPECT_EQ(SendDatagram(neighbour.get(), kLoopback, 53, server.get(), kRefusalMs), "");
  EXPECT_EQ(SendDatagram(stranger.get(), kLoopback, 53, server.get(), kRefusalMs), "");
  Command("nft flush chain ip holdfast spoofed");
  EXPECT_EQ(SendDatagram(stranger.get(), kLoopback, 53, server.get(), kRefusalMs), "")
      << "not translated, alone";
  Command("nft add rule ip holdfast prerouting jump hostports");
  EXPECT_EQ(SendDatagram(neighbour.get(), kLoopback, 53, server.get()), kOutsideIp)
      << "the test itself";
  EXPECT_EQ(SendDatagram(stranger.get(), kLoopback, 53, server.get()), other.ip(false))
      << "the test itself";
}

TEST_F(LoopbackPorts, ThatOfIpv6IsRefusedWithItsReason) {
  auto refused = TryPod("web", {{"::1", 8080, 80, kTcp}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnsupported);
  EXPECT_NE(refused.error().message().find("host port 8080: host IP ::1 is IPv6's loopback"),
            std::string::npos)
      << refused.error().message();
  EXPECT_TRUE(net_->Addresses(PodUid("uid-web")).empty());
}

}  // namespace
}  // namespace holdfast::netproxy
