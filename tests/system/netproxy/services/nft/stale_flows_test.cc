// SPDX-License-Identifier: Apache-2.0
// One UDP client that never stops sending from the same port, while its Service changes.
#include "netproxy/conntrack/stale_flows.h"

#include <gtest/gtest.h>

#include "netproxy/services/nft/back_end.h"
#include "tests/system/netproxy/services/flow_world.h"

namespace holdfast::netproxy {
namespace {

class Flows : public FlowWorld<ServiceRunner>, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    ServiceRunner::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto opened = nft::NftServices::Open("holdfast-services");
    ASSERT_OK(opened);
    back_end_ = std::move(*opened);
    OpenFlows();
  }
  bool v6() const { return GetParam(); }
  std::string Vip() const { return AddressOf("vip:10", v6()); }
  std::string NodeIp() const { return AddressOf("node", v6()); }

  model::ServicePortRowPtr Row(const std::string& name, std::vector<std::string> endpoints,
                               const char* vip = "vip:10", uint16_t node_port = 30053) const {
    return RowOf(
        {name.c_str(), model::L4Protocol::kUdp, std::move(endpoints), vip, false, false, node_port},
        v6());
  }
};
INSTANTIATE_TEST_SUITE_P(Families, Flows, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "IPv6" : "IPv4"; });

TEST_P(Flows, EveryChangeReachesASenderThatNeverStops) {
  Change(true, {Row("t/dns", {"a"})});
  const UniqueFd pod = Sender(NamespaceOf("client"), addresses_.at("client")[v6() ? 1 : 0]);
  const UniqueFd outside = Sender(outside_.get(), v6() ? "2001:db8::1" : "192.0.2.1");
  const auto both = [&] {
    return std::vector<std::string>{Send(pod, Vip(), 53), Send(outside, NodeIp(), 30053)};
  };
  const auto all = [](const std::string& name) { return std::vector<std::string>{name, name}; };
  EXPECT_EQ(both(), all("a"));
  EXPECT_EQ(Change(false, {Row("t/dns", {"b"})}), 2u);
  EXPECT_EQ(both(), all("b")) << "another endpoint";
  EXPECT_EQ(Change(false, {Row("t/dns", {"a", "b"})}), 0u);
  EXPECT_EQ(both(), all("b")) << "one more endpoint moves nobody";
  EXPECT_EQ(Change(false, {Row("t/dns", {})}), 2u);
  EXPECT_EQ(both(), all("nobody")) << "the last endpoint went";
  Change(false, {Row("t/dns", {"a"})});
  EXPECT_EQ(both(), all("a")) << "the first endpoint came";
  EXPECT_EQ(Change(false, {}, {{"t/dns", v6()}}), 2u);
  EXPECT_EQ(both(), all("nobody")) << "the service went";
  Change(false, {Row("t/dns", {"b"})});
  EXPECT_EQ(both(), all("b")) << "it came again, while the sender was at the node itself";
  EXPECT_EQ(Change(false, {Row("t/dns", {"b"}, "vip:10", 30054)}), 1u);
  EXPECT_EQ(Send(outside, NodeIp(), 30053), "nobody") << "the node port went";
  EXPECT_EQ(Send(pod, Vip(), 53), "b") << "and nothing else";
}

TEST_P(Flows, AnEndpointThatDrainsKeepsItsFlows) {
  Change(true, {Row("t/dns", {"a"})});
  const UniqueFd pod = Sender(NamespaceOf("client"), addresses_.at("client")[v6() ? 1 : 0]);
  EXPECT_EQ(Send(pod, Vip(), 53), "a");
  auto row = std::make_shared<model::ServicePortRow>(*Row("t/dns", {"b"}));
  row->draining = Endpoints({"a"}, v6());
  EXPECT_EQ(Change(false, {row}), 0u);
  EXPECT_EQ(Send(pod, Vip(), 53), "a");
  EXPECT_EQ(Change(false, {Row("t/dns", {"b"})}), 1u);
  EXPECT_EQ(Send(pod, Vip(), 53), "b");
}

TEST_P(Flows, ARestartedAgentFindsWhatBecameStaleMeanwhile) {
  Change(true, {Row("t/dns", {"a"}), Row("t/other", {"b"}, "vip:11", 30060)});
  const UniqueFd pod = Sender(NamespaceOf("client"), addresses_.at("client")[v6() ? 1 : 0]);
  EXPECT_EQ(Send(pod, Vip(), 53), "a");
  EXPECT_EQ(Send(pod, AddressOf("vip:11", v6()), 53), "b");
  OpenFlows();
  EXPECT_EQ(Change(true, {Row("t/dns", {"b"}), Row("t/other", {"a", "b"}, "vip:11", 30060)}), 1u);
  EXPECT_EQ(Send(pod, Vip(), 53), "b");
  EXPECT_EQ(Send(pod, AddressOf("vip:11", v6()), 53), "b") << "its endpoint is still there";
}

TEST_P(Flows, ASenderThatBeganWhileTheRulesWereAwayIsHeardOnceTheyAreBack) {
  // Without ours the kernel would track nothing, a moment later; on a node the pods' rules ask for it.
  Command(
      "nft 'add table inet pods; add chain inet pods track { type filter hook prerouting priority "
      "0; }; add rule inet pods track ct state new accept'");
  Change(true, {Row("t/dns", {"a"})});
  const UniqueFd before = Sender(outside_.get(), v6() ? "2001:db8::1" : "192.0.2.1");
  EXPECT_EQ(Send(before, NodeIp(), 30053), "a");
  auto somebody = nft::NftServices::Open("holdfast-services");
  ASSERT_OK(somebody);
  ASSERT_OK((*somebody)->Remove());
  const UniqueFd pod = Sender(NamespaceOf("client"), addresses_.at("client")[v6() ? 1 : 0]);
  EXPECT_EQ(Send(pod, Vip(), 53), "nobody");
  EXPECT_EQ(Repair(), 1u) << "the one that began meanwhile";
  EXPECT_EQ(Send(pod, Vip(), 53), "a");
  EXPECT_EQ(Send(before, NodeIp(), 30053), "a");
  EXPECT_EQ(Repair(), 0u);
}

// The former agent died between the rules without t/dns and the end of its flows, or t/dns went
// while no agent lived: nothing but the record knows of it.
TEST_P(Flows, ARestartedAgentEndsTheFlowsOfAServiceThatWentMeanwhile) {
  Change(true, {Row("t/dns", {"a"}), Row("t/other", {"b"}, "vip:11", 30060)});
  const UniqueFd pod = Sender(NamespaceOf("client"), addresses_.at("client")[v6() ? 1 : 0]);
  const UniqueFd outside = Sender(outside_.get(), v6() ? "2001:db8::1" : "192.0.2.1");
  EXPECT_EQ(Send(pod, Vip(), 53), "a");
  EXPECT_EQ(Send(outside, NodeIp(), 30053), "a");
  EXPECT_EQ(Send(pod, AddressOf("vip:11", v6()), 53), "b");
  OpenFlows();
  EXPECT_EQ(Change(true, {Row("t/other", {"b"}, "vip:11", 30060)}), 2u);
  EXPECT_EQ(Send(pod, Vip(), 53), "nobody");
  EXPECT_EQ(Send(outside, NodeIp(), 30053), "nobody");
  EXPECT_EQ(Send(pod, AddressOf("vip:11", v6()), 53), "b");
  // Looked for once: a flow of somebody else's by that address is none of ours.
  OpenFlows();
  EXPECT_EQ(Change(true, {Row("t/other", {"b"}, "vip:11", 30060)}), 0u);
}

}  // namespace
}  // namespace holdfast::netproxy
