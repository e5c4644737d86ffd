// SPDX-License-Identifier: Apache-2.0
// The table of expectations through IPVS, and what it does not hold: spread, affinity, endpoints
// that flip.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "tests/system/netproxy/services/ipvs/ipvs_world.h"

namespace holdfast::netproxy {
namespace {

using Clock = std::chrono::steady_clock;
using IpvsPackets = IpvsFamilies;
INSTANTIATE_TEST_SUITE_P(Families, IpvsPackets, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "IPv6" : "IPv4"; });

TEST_P(IpvsPackets, ClusterIpIsServedDumpedAndRemoved) {
  Apply(true, {Web({"a", "b"})});
  EXPECT_EQ(Reached("client", Vip(), 80), (Names{"a", "b"}));
  EXPECT_EQ(Observe().size(), 1u);
  const std::string dump = back_end_->Dump().value_or("");
  EXPECT_NE(dump.find(v6() ? "-A -t [fd00:96::10]:80 -s rr -b flag-3\n"
                           : "-A -t 10.96.0.10:80 -s rr -b flag-3\n"),
            std::string::npos)
      << dump;
  ASSERT_OK(back_end_->Remove());
  EXPECT_TRUE(Observe().empty());
  EXPECT_EQ(Command("nft list ruleset"), "");
  EXPECT_EQ(Command("ip -o link").find("holdfast-ipvs"), std::string::npos);
  ASSERT_OK(back_end_->Remove());
}

TEST_P(IpvsPackets, EveryExpectationHolds) {
  Apply(true, AllRows(v6()));
  RunExpectations("ipvs", v6());
}

TEST_P(IpvsPackets, ConnectionsTakeTurns) {
  Apply(true, {Web({"a", "b", "c"})});
  std::map<std::string, int> met;
  for (int i = 0; i < 300; ++i) ++met[Try("client", Vip(), 80).endpoint];
  EXPECT_EQ(met, (std::map<std::string, int>{{"a", 100}, {"b", 100}, {"c", 100}}));
}

TEST_P(IpvsPackets, AffinityEndsWithItsEndpointOnly) {
  Apply(true, {Sticky({"a", "b", "c"}, std::chrono::seconds(3600))});
  const auto always = [&](const std::string& address, uint16_t port) {
    const std::set<std::string> met = Reached("client", address, port, 15);
    EXPECT_EQ(met.size(), 1u) << address;
    return *met.begin();
  };
  const std::string first = always(Vip(), 80);
  always(NodeIp(), 30080);
  always(AddressOf("lb:20", v6()), 80);
  Names others = {"a", "b", "c"};
  others.erase(first);
  Apply(false, {Sticky({others.begin(), others.end()}, std::chrono::seconds(3600))});
  const std::string second = always(Vip(), 80);
  EXPECT_TRUE(others.contains(second)) << second;
  Apply(false, {Sticky({"a", "b", "c"}, std::chrono::seconds(3600))});
  EXPECT_EQ(always(Vip(), 80), second) << "one more endpoint moves nobody";
  Restart();
  Apply(true, {Sticky({"a", "b", "c"}, std::chrono::seconds(3600))});
  EXPECT_EQ(always(Vip(), 80), second);
  Apply(false, {Sticky({"a", "b", "c"}, std::chrono::seconds(0))});
  EXPECT_EQ(Reached("client", Vip(), 80), (Names{"a", "b", "c"}));
}

TEST_P(IpvsPackets, AffinityTimesOut) {
  // The kernel keeps a client as long as it keeps its last connection, so that one must be short.
  options_.udp_timeout = std::chrono::seconds(1);
  Restart();
  auto row = Web({"a", "b", "c"}, model::L4Protocol::kUdp);
  row->affinity = std::chrono::seconds(3);
  Apply(true, {row});
  const auto met = [&] { return Try("client", Vip(), 53, model::L4Protocol::kUdp).endpoint; };
  const std::string first = met();
  EXPECT_EQ(met(), first);
  std::string now = first;
  for (const auto end = Clock::now() + std::chrono::seconds(100); now == first;) {
    ASSERT_LT(Clock::now(), end);
    ::poll(nullptr, 0, 4500);
    now = met();
  }
  EXPECT_NE(now, "dropped");
}

// Endpoints change as fast as the kernel takes it; one of them is always there.
TEST_P(IpvsPackets, NoConnectionHangsWhileEndpointsFlip) {
  Apply(true, {Web({"a"})});
  const auto row = [this](const auto& endpoints) { return Web(endpoints); };
  EXPECT_GT(FlipEndpoints(Vip(), row, FlipConnections(2000)), 100);
  EXPECT_EQ(back_end_->Repair().value_or(99), 0u);
}

TEST_P(IpvsPackets, SctpIsServed) {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_SCTP);
  if (probe < 0) GTEST_SKIP() << "kernel lacks SCTP";
  ::close(probe);
  const auto sctp = [&](int netns, const std::function<void(int fd)>& use) {
    UniqueFd fd;
    EXPECT_OK(sys::RunInNetworkNamespace(netns, [&]() -> Result<void> {
      fd.Reset(::socket(v6() ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                        IPPROTO_SCTP));
      use(fd.get());
      return {};
    }));
    return fd;
  };
  const std::string pod = addresses_.at("a")[v6() ? 1 : 0];
  const UniqueFd server = sctp(NamespaceOf("a"), [&](int fd) {
    SockAddr own = SockAddr::Of(pod, kServerPort);
    EXPECT_EQ(::bind(fd, own.get(), own.size), 0) << ::strerror(errno);
    EXPECT_EQ(::listen(fd, 4), 0);
  });
  const auto connects = [&](const std::string& from, const std::string& to, uint16_t port) {
    const UniqueFd client = sctp(NamespaceOf(from), [&](int fd) {
      SockAddr at = SockAddr::Of(to, port);
      ::connect(fd, at.get(), at.size);
    });
    if (!WaitFor(server.get(), POLLIN, kTimeoutMs)) return false;
    const UniqueFd accepted(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char byte = 's';
    return WaitFor(client.get(), POLLOUT, kTimeoutMs) &&
           ::send(client.get(), &byte, 1, MSG_NOSIGNAL) == 1 &&
           WaitFor(accepted.get(), POLLIN, kTimeoutMs) && ::recv(accepted.get(), &byte, 1, 0) == 1;
  };
  auto row =
      RowOf({"t/sctp", model::L4Protocol::kSctp, {"a"}, "vip:10", false, false, 30090}, v6());
  for (model::Frontend& frontend : row->frontends) {
    if (frontend.kind == model::FrontendKind::kClusterIp) frontend.port = 3868;
  }
  Apply(true, {row});
  EXPECT_TRUE(connects("client", Vip(), 3868));
  EXPECT_TRUE(connects("outside", NodeIp(), 30090));
}

// kubernetes#72236: a service's address must not lead to what else listens on the node.
TEST_P(IpvsPackets, OtherPortsOfAServiceAddressLeadNowhere) {
  Apply(true, {Web({"a"})});
  const UniqueFd any = Socket(node_.get(), SOCK_STREAM, v6() ? "::" : "0.0.0.0", 10250, true);
  for (const NsFd* from : {&outside_, &pods_.at("client").netns}) {
    EXPECT_EQ(Connect(from->get(), NodeIp(), 10250, any.get()).error, "");
    EXPECT_EQ(Connect(from->get(), Vip(), 10250, any.get()).error, "ECONNREFUSED");
  }
  EXPECT_EQ(Connect(node_.get(), Vip(), 10250, any.get()).error, "ECONNREFUSED");
  EXPECT_TRUE(Ping(outside_.get(), Vip())) << "the address itself answers";
}

TEST_P(IpvsPackets, TwoLoadBalancerAddressesWithTheirOwnSourceRanges) {
  auto row = RowOf({"t/lb", model::L4Protocol::kTcp, {"a"}, "vip:10"}, v6());
  const auto add = [&](const std::string& address, const char* range) {
    model::Frontend frontend;
    frontend.kind = model::FrontendKind::kLoadBalancerIp;
    frontend.address = Ip(AddressOf(address, v6()));
    frontend.port = 80;
    frontend.masquerade = model::kFromPod | model::kFromNode | model::kFromOutside;
    frontend.restricted = true;
    frontend.source_ranges = {*Cidr::Parse(range)};
    row->frontends.push_back(frontend);
  };
  add("lb:40", v6() ? "2001:db8::/64" : "192.0.2.0/24");
  add("lb:41", v6() ? "2001:db8:3::/64" : "192.0.3.0/24");
  Apply(true, {row});
  EXPECT_EQ(Try("outside", AddressOf("lb:40", v6()), 80).endpoint, "a");
  EXPECT_EQ(Try("peer", AddressOf("lb:40", v6()), 80).endpoint, "dropped");
  EXPECT_EQ(Try("outside", AddressOf("lb:41", v6()), 80).endpoint, "dropped");
  EXPECT_EQ(Try("peer", AddressOf("lb:41", v6()), 80).endpoint, "a");
  // Another range, while the services are there.
  row = std::make_shared<model::ServicePortRow>(*row);
  row->frontends.back().source_ranges = {*Cidr::Parse(v6() ? "2001:db8::1/128" : "192.0.2.1/32")};
  Apply(false, {row});
  EXPECT_EQ(Try("outside", AddressOf("lb:41", v6()), 80).endpoint, "a");
  EXPECT_EQ(Try("peer", AddressOf("lb:41", v6()), 80).endpoint, "dropped");
}

// An external address that is the node's own stays the node's for all but the service's port.
TEST_P(IpvsPackets, AnExternalAddressMayBeTheNodesOwn) {
  auto row = RowOf({"t/own", model::L4Protocol::kTcp, {"a"}, "vip:10"}, v6());
  model::Frontend frontend;
  frontend.kind = model::FrontendKind::kExternalIp;
  frontend.address = Ip(NodeIp());
  frontend.port = 8443;
  frontend.masquerade = model::kFromPod | model::kFromNode | model::kFromOutside;
  row->frontends.push_back(frontend);
  Apply(true, {row});
  const UniqueFd any = Socket(node_.get(), SOCK_STREAM, v6() ? "::" : "0.0.0.0", 10250, true);
  EXPECT_EQ(Try("outside", NodeIp(), 8443).endpoint, "a");
  EXPECT_EQ(Connect(outside_.get(), NodeIp(), 10250, any.get()).error, "");
  Apply(false, {}, {row->key});
  EXPECT_EQ(Command("ip address show dev up0").find(NodeIp()) != std::string::npos, true);
}

}  // namespace
}  // namespace holdfast::netproxy
