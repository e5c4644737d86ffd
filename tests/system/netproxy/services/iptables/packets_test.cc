// SPDX-License-Identifier: Apache-2.0
// The table of expectations in iptables, and what it does not hold: affinity, endpoints that flip,
// node ports of localhost and the guard that they need.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/system/netproxy/services/iptables/iptables_world.h"

namespace holdfast::netproxy {
namespace {

using Clock = std::chrono::steady_clock;

class IptablesPackets : public IptablesWorld {
 protected:
  static constexpr std::chrono::seconds kLong{3600};

  model::ServicePortRow Sticky(const std::vector<std::string>& endpoints,
                               std::chrono::seconds timeout) const {
    model::ServicePortRow row = Row("t/sticky", {ClusterIp(Vip(), 80), NodePort(30080)}, endpoints);
    row.affinity = timeout;
    return row;
  }
  void ExpectAlways(const std::string& endpoint) {
    for (int i = 0; i < 15; ++i) EXPECT_EQ(Try("client", Vip(), 80).endpoint, endpoint);
    EXPECT_EQ(Try("client", NodeIp(), 30080).endpoint, endpoint);
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, IptablesPackets,
                         ::testing::Combine(::testing::Values("nft", "legacy"), ::testing::Bool()),
                         [](const auto& p) {
                           return StrCat(std::get<0>(p.param), std::get<1>(p.param) ? "6" : "4");
                         });

TEST_P(IptablesPackets, EveryExpectationHolds) {
  settings_->localhost_node_ports = true;
  Apply(true, AllRows(v6()));
  RunExpectations("iptables", v6());
}

TEST_P(IptablesPackets, AffinityEndsWithItsEndpointOnly) {
  Apply(true, Rows{Sticky({"a", "b", "c"}, kLong)});
  const std::string first = Try("client", Vip(), 80).endpoint;
  ExpectAlways(first);
  std::vector<std::string> others;
  for (const char* name : {"a", "b", "c"}) {
    if (name != first) others.push_back(name);
  }
  Apply(false, Rows{Sticky(others, kLong)});
  const std::string second = Try("client", Vip(), 80).endpoint;
  EXPECT_NE(second, first);
  ExpectAlways(second);
  Apply(false, Rows{Sticky({"a", "b", "c"}, kLong)});
  ExpectAlways(second);  // one more endpoint moves nobody
  Restart();
  Apply(true, Rows{Sticky({"a", "b", "c"}, kLong)});
  ExpectAlways(second);
  Apply(false, Rows{Sticky({"a", "b", "c"}, std::chrono::seconds(0))});
  EXPECT_EQ(Reached("client", Vip(), 80, 60), (Names{"a", "b", "c"}));
}

TEST_P(IptablesPackets, AffinityTimesOut) {
  Apply(true, Rows{Sticky({"a", "b", "c"}, std::chrono::seconds(1))});
  const std::string first = Try("client", Vip(), 80).endpoint;
  std::string now = first;
  for (const auto end = Clock::now() + std::chrono::seconds(60); now == first;) {
    ASSERT_LT(Clock::now(), end);
    ::poll(nullptr, 0, 2100);  // the kernel's seconds are whole ones
    now = Try("client", Vip(), 80).endpoint;
  }
  EXPECT_NE(now, "dropped");
}

// Endpoints change as fast as the kernel takes it; one of them is always there.
TEST_P(IptablesPackets, NoConnectionHangsWhileEndpointsFlip) {
  const auto plain = [&](const std::vector<std::string>& endpoints) {
    return Row("t/plain", {ClusterIp(Vip(), 80)}, endpoints);
  };
  Apply(true, Rows{plain({"a"})});
  const auto row = [&](const std::vector<std::string>& endpoints) {
    return std::make_shared<const model::ServicePortRow>(plain(endpoints));
  };
  EXPECT_GT(FlipEndpoints(Vip(), row, FlipConnections(5000)), 10);
}

// IPv4 alone has route_localnet.
class IptablesLocalhost : public IptablesWorld {};
INSTANTIATE_TEST_SUITE_P(Kinds, IptablesLocalhost,
                         ::testing::Combine(::testing::Values("nft", "legacy"),
                                            ::testing::Values(false)),
                         [](const auto& p) { return std::get<0>(p.param); });

TEST_P(IptablesLocalhost, ListenersStayPrivate) {
  settings_->localhost_node_ports = true;
  Apply(true, Rows{Row("t/np", {ClusterIp(Vip(), 80), NodePort(30080)}, {"a"})});
  EXPECT_EQ(sys::ReadSysctl("net/ipv4/conf/all/route_localnet").value_or(""), "1");
  const Met met = Try("node", "127.0.0.1", 30080);
  EXPECT_EQ(met.endpoint, "a");
  EXPECT_EQ(WhoIs(met.source, "node"), "node");

  // The neighbour sends to the node's 127.0.0.1.
  ASSERT_OK(sys::RunInNetworkNamespace(outside_.get(), [&]() -> Result<void> {
    RETURN_IF_ERROR(sys::WriteSysctl("net/ipv4/conf/all/route_localnet", "1"));
    Command("ip route add 127.0.0.0/8 via 192.0.2.2 dev eth0");
    return {};
  }));
  const UniqueFd secret = Socket(node_.get(), SOCK_STREAM, "127.0.0.1", 9999, true);
  EXPECT_EQ(Connect(outside_.get(), "127.0.0.1", 9999, secret.get(), kRefusalMs).error, "timeout");
  Command(Program(" -F KUBE-FIREWALL"));
  EXPECT_EQ(Connect(outside_.get(), "127.0.0.1", 9999, secret.get()).error, "")
      << "the guard is what stopped it";
  ASSERT_OK(back_end_->Remove());
  EXPECT_EQ(sys::ReadSysctl("net/ipv4/conf/all/route_localnet").value_or(""), "0");
  EXPECT_EQ(Rules().find("KUBE"), std::string::npos) << Rules();
}

}  // namespace
}  // namespace holdfast::netproxy
