// SPDX-License-Identifier: Apache-2.0
// Two nodes that share no link, both with an agent's routes: their pods meet with their own addresses, and nobody else
// gets into the tunnel. The far node is the outside world's namespace, its pods are addresses there.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>

#include <memory>
#include <optional>

#include "netproxy/routes/node_routes.h"
#include "netproxy/routes/tunnel.h"
#include "tests/support/eventually.h"
#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::netproxy {
namespace {

constexpr char kFarPod[] = "10.2.0.7", kFarPod6[] = "fd00:2::7";

NodePeer MakeNode(const std::string& name, const std::vector<std::string>& ranges,
                  const std::vector<std::string>& addresses) {
  NodePeer node{name, {}, {}};
  for (const std::string& range : ranges) node.pod_ranges.push_back(Cidr::Parse(range).value());
  for (const std::string& ip : addresses) node.addresses.push_back(IpAddress::Parse(ip).value());
  return node;
}

uint16_t Checksum(const void* data, size_t size) {
  uint32_t sum = 0;
  for (size_t i = 0; i < size; i += 2)
    sum += static_cast<const uint8_t*>(data)[i] * 256U + static_cast<const uint8_t*>(data)[i + 1];
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<uint16_t>(~sum));
}

// What a node at `far` would send for a datagram of one byte from a pod of its own.
std::string Encapsulated(const IpAddress& near, const IpAddress& far, const std::string& from,
                         const std::string& to, uint16_t port) {
  std::string out("\x08\0\0\0\0\x10\0\0", 8);  // RFC 7348: an identifier follows; 4096
  for (const IpAddress& end : {near, far}) {
    for (const uint8_t byte : TunnelEnd(end)) out += static_cast<char>(byte);
  }
  out += std::string("\x08\0", 2);  // IPv4
  iphdr ip{};
  ip.version = 4;
  ip.ihl = 5;
  ip.ttl = 64;
  ip.protocol = IPPROTO_UDP;
  ip.tot_len = htons(sizeof ip + sizeof(udphdr) + 1);
  ip.saddr = ::inet_addr(from.c_str());
  ip.daddr = ::inet_addr(to.c_str());
  ip.check = Checksum(&ip, sizeof ip);
  udphdr udp{};
  udp.source = htons(9);
  udp.dest = htons(port);
  udp.len = htons(sizeof udp + 1);
  out.append(reinterpret_cast<const char*>(&ip), sizeof ip);
  out.append(reinterpret_cast<const char*>(&udp), sizeof udp);
  return out + "x";
}

class TunnelTest : public NetFixture {
 protected:
  void SetUp() override {
    NetFixture::SetUp();
    if (IsSkipped()) return;
    auto here = sys::Rtnl::Open();
    ASSERT_OK(here);
    // Addresses that are on nobody's link, as those of nodes behind routers.
    Address(*here, "lo", "203.0.113.1", 32);
    Address(*here, "lo", "2001:db8:1::1", 128);
    auto far = sys::Rtnl::OpenIn(outside_.get());
    ASSERT_OK(far);
    for (const char* ip : {"198.51.100.2", kFarPod}) Address(*far, "lo", ip, 32);
    for (const char* ip : {"2001:db8:2::2", kFarPod6}) Address(*far, "lo", ip, 128);
    DefaultRoute(*far, "eth0", "192.0.2.2");
    DefaultRoute(*far, "eth0", "2001:db8::2");
    auto opened = NodeRoutes::Open({});
    ASSERT_OK(opened);
    routes_ = std::move(*opened);
    ASSERT_OK(sys::RunInNetworkNamespace(outside_.get(), [&]() -> Result<void> {
      ASSIGN_OR_RETURN(far_routes_, NodeRoutes::Open({}));
      return {};
    }));
  }

  void Join() {
    const auto here = routes_->Apply({far_}, near_);
    ASSERT_OK(here);
    EXPECT_EQ(*here, std::vector<std::string>{});
    ASSERT_OK(net_->SetRanges({}, ReachedDirectly({far_})));
    ASSERT_OK(sys::RunInNetworkNamespace(outside_.get(), [&]() -> Result<void> {
      auto there = far_routes_->Apply({near_}, far_);
      if (!there) return std::move(there.error());
      EXPECT_EQ(*there, std::vector<std::string>{});
      return {};
    }));
  }

  static std::string Device(const char* name) {
    return Command(StrCat("ip -d link show ", name, "; ip addr show ", name,
                          "; bridge fdb show dev ", name, "; ip neigh show dev ", name,
                          "; ip -6 neigh show dev ", name));
  }
  static std::string All() {
    return Command(
        "ip -d -o link show type vxlan; ip route show proto 72; ip -6 route show proto 72; "
        "nft list tables");
  }

  // A datagram in a frame, from somebody to this node's end; whether the pod got it.
  bool Injected(int sender, const Pod& pod) {
    const UniqueFd victim = Socket(pod.netns.get(), SOCK_DGRAM, pod.ips[0], 7000, false);
    const std::string packet =
        Encapsulated(near_.addresses[0], far_.addresses[0], kFarPod, pod.ips[0], 7000);
    SockAddr to = SockAddr::Of("203.0.113.1", kTunnelPort);
    EXPECT_EQ(::sendto(sender, packet.data(), packet.size(), 0, to.get(), to.size),
              static_cast<ssize_t>(packet.size()));
    return WaitFor(victim.get(), POLLIN, kRefusalMs);
  }

  const NodePeer near_ =
      MakeNode("n1", {"10.88.0.0/16", "fd00:88::/64"}, {"203.0.113.1", "2001:db8:1::1"});
  const NodePeer far_ =
      MakeNode("n2", {"10.2.0.0/24", "fd00:2::/64"}, {"198.51.100.2", "2001:db8:2::2"});
  std::unique_ptr<NodeRoutes> routes_, far_routes_;
};

TEST_F(TunnelTest, PodsOfNodesBehindARouterMeetWithTheirOwnAddresses) {
  Pod pod = MakePod("web");
  Join();
  for (const bool v6 : {false, true}) {
    const std::string far_pod = v6 ? kFarPod6 : kFarPod;
    const UniqueFd there = Socket(outside_.get(), SOCK_STREAM, far_pod, 7000, true);
    const Outcome out = Connect(pod.netns.get(), far_pod, 7000, there.get());
    EXPECT_TRUE(out.ok()) << out.error;
    EXPECT_EQ(out.source, pod.ip(v6));
    const UniqueFd here = Socket(pod.netns.get(), SOCK_STREAM, pod.ip(v6), 7001, true);
    const Outcome in = Connect(outside_.get(), pod.ip(v6), 7001, here.get());
    EXPECT_TRUE(in.ok()) << in.error;
    EXPECT_EQ(in.source, v6 ? "fd00:2::" : "10.2.0.0") << "a node itself comes from its range";
    const Outcome node = Connect(node_.get(), far_pod, 7000, there.get());
    EXPECT_TRUE(node.ok()) << node.error;
    EXPECT_EQ(node.source, v6 ? "fd00:88::" : "10.88.0.0");
  }
}

TEST_F(TunnelTest, TheKernelHasOnePathPerNodeAndNothingIsTouchedTwice) {
  Join();
  // The link's own address is its for good a moment after it came.
  const auto is_tentative = [&] { return Device("vx-hf4").find("tentative") != std::string::npos; };
  ASSERT_TRUE(test_support::Eventually([&] { return !is_tentative(); }, std::chrono::seconds(10)));
  const std::string device = Device("vx-hf4");
  for (const char* part :
       {"vxlan id 4096 local 203.0.113.1", "dstport 8472", "nolearning", "mtu 1450",
        "inet 10.88.0.0/32", "02:68:c6:33:64:02 dst 198.51.100.2 self permanent",
        "198.51.100.2 lladdr 02:68:c6:33:64:02 PERMANENT"}) {
    EXPECT_NE(device.find(part), std::string::npos) << part << "\n" << device;
  }
  EXPECT_NE(Device("vx-hf6").find("mtu 1430"), std::string::npos);
  const std::string all = All();
  EXPECT_NE(all.find("10.2.0.0/24 via 198.51.100.2 dev vx-hf4 src 10.88.0.0 onlink"),
            std::string::npos)
      << all;
  Join();
  EXPECT_EQ(Device("vx-hf4"), device);
  EXPECT_EQ(All(), all);
}

TEST_F(TunnelTest, NodesComeAndGoAndTheLastTakesItAllAlong) {
  const std::string before = All();
  Join();
  NodePeer moved = far_;
  moved.addresses = {IpAddress::Parse("198.51.100.9").value(), far_.addresses[1]};
  const NodePeer more = MakeNode("n3", {"10.3.0.0/24"}, {"198.51.100.3"});
  ASSERT_OK(routes_->Apply({moved, more}, near_));
  const std::string device = Device("vx-hf4");
  EXPECT_EQ(device.find("198.51.100.2"), std::string::npos) << device;
  EXPECT_NE(device.find("02:68:c6:33:64:09 dst 198.51.100.9"), std::string::npos) << device;
  EXPECT_NE(device.find("02:68:c6:33:64:03 dst 198.51.100.3"), std::string::npos) << device;
  ASSERT_OK(routes_->Apply({}, near_));
  EXPECT_EQ(All(), before);
  Join();
  ASSERT_OK(routes_->Remove());
  EXPECT_EQ(All(), before);
}

TEST_F(TunnelTest, AnotherAddressOfThisNodeMakesTheDeviceAnew) {
  Pod pod = MakePod("web");
  Join();
  auto here = sys::Rtnl::Open();
  ASSERT_OK(here);
  Address(*here, "lo", "203.0.113.77", 32);
  NodePeer self = near_;
  self.addresses[0] = IpAddress::Parse("203.0.113.77").value();
  ASSERT_OK(routes_->Apply({far_}, self));
  EXPECT_NE(Device("vx-hf4").find("local 203.0.113.77"), std::string::npos);
  ASSERT_OK(sys::RunInNetworkNamespace(outside_.get(), [&]() -> Result<void> {
    RETURN_IF_ERROR(far_routes_->Apply({self}, far_));
    return {};
  }));
  const UniqueFd there = Socket(outside_.get(), SOCK_STREAM, kFarPod, 7000, true);
  EXPECT_TRUE(Connect(pod.netns.get(), kFarPod, 7000, there.get()).ok());
  self.addresses[0] = IpAddress::Parse("203.0.113.99").value();  // nobody's
  const auto refused = routes_->Apply({far_}, self);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "tunnel vx-hf4: this node's address 203.0.113.99 is on none of its links");
}

// SE-NET: a frame from whoever is no node of the cluster reaches nobody; without the rules it would.
TEST_F(TunnelTest, NobodyButNodesGetsIn) {
  Pod victim = MakePod("victim");
  Pod attacker = MakePod("attacker");
  Join();
  const UniqueFd of_pod = Socket(attacker.netns.get(), SOCK_DGRAM, attacker.ips[0], 0, false);
  const UniqueFd of_stranger = Socket(outside_.get(), SOCK_DGRAM, "192.0.2.1", 0, false);
  const UniqueFd of_node = Socket(outside_.get(), SOCK_DGRAM, "198.51.100.2", 0, false);
  EXPECT_TRUE(Injected(of_node.get(), victim));
  EXPECT_FALSE(Injected(of_pod.get(), victim));
  EXPECT_FALSE(Injected(of_stranger.get(), victim));
  Command("nft delete table ip holdfast-tunnel");
  EXPECT_TRUE(Injected(of_pod.get(), victim)) << "the attack is one";
  Join();
  EXPECT_FALSE(Injected(of_pod.get(), victim)) << "what somebody took away is put back";
}

}  // namespace
}  // namespace holdfast::netproxy
