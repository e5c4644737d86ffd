// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/ip_vs.h>

#include "netproxy/services/ipvs/options.h"
#include "tests/unit/netproxy/services/ipvs/rows.h"

namespace holdfast::netproxy::ipvs {
namespace {

using model::EndpointList;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr uint32_t kMasquerade = 0x4000;

VirtualKey Tcp(const std::string& ip, uint16_t port = 80) {
  VirtualKey key;
  key.protocol = 6;
  key.address = Ip(ip);
  key.v6 = key.address.v6;
  key.port = port;
  return key;
}
VirtualKey Mark(uint32_t mark) {
  VirtualKey key;
  key.mark = mark;
  return key;
}
uint32_t PortMark(uint16_t port, EndpointList list, bool masquerade) {
  return MarkOf(port, list, masquerade, kMasquerade);
}

TEST(IpvsCompile, ClusterIpIsOneVirtualServerOfItsAddress) {
  const auto row = Row("t/web", {ClusterIp("10.96.0.1")}, {"10.88.0.2", "10.89.0.2"});
  const RowRules rules = CompileRow(*row, Context(), 0);
  ASSERT_EQ(rules.virtuals.size(), 1u);
  const auto& [key, server] = *rules.virtuals.begin();
  EXPECT_EQ(key, Tcp("10.96.0.1"));
  EXPECT_EQ(server.endpoints, row->cluster);
  EXPECT_TRUE(server.graceful);
  EXPECT_EQ(server.config, (VirtualConfig{"rr", kOwnFlag, 0}));
  EXPECT_THAT(rules.addresses, ElementsAre(Ip("10.96.0.1")));
  EXPECT_THAT(
      Names(rules.elements),
      UnorderedElementsAre("served 10.96.0.1 . tcp . 80", "masquerade-node 10.96.0.1 . tcp . 80",
                           "masquerade-outside 10.96.0.1 . tcp . 80"));
}

TEST(IpvsCompile, AffinityIsPersistence) {
  auto row = Row("t/web", {ClusterIp("10.96.0.1")}, {"10.88.0.2"});
  row->affinity = std::chrono::seconds(10800);
  const RowRules rules = CompileRow(*row, Context(), 0);
  EXPECT_EQ(rules.virtuals.begin()->second.config,
            (VirtualConfig{"rr", kOwnFlag | IP_VS_SVC_F_PERSISTENT, 10800}));
}

TEST(IpvsCompile, OnlyTcpLeavesGracefully) {
  for (const auto protocol : {model::L4Protocol::kUdp, model::L4Protocol::kSctp}) {
    auto row = Row("t/dns", {ClusterIp("10.96.0.1")}, {"10.88.0.2"});
    row->protocol = protocol;
    EXPECT_FALSE(CompileRow(*row, Context(), 0).virtuals.begin()->second.graceful);
  }
}

TEST(IpvsCompile, WithoutEndpointsNothingServesAndRulesRefuse) {
  const auto row = Row("t/empty", {ClusterIp("10.96.0.1"), NodePort(30080)}, {});
  const RowRules rules = CompileRow(*row, Context(), 0);
  EXPECT_THAT(rules.virtuals, IsEmpty());
  EXPECT_THAT(rules.addresses, ElementsAre(Ip("10.96.0.1")));
  EXPECT_THAT(Names(rules.elements),
              UnorderedElementsAre("refuse 10.96.0.1 . tcp . 80", "port-refuse tcp . 30080"));
}

TEST(IpvsCompile, NodePortIsOneVirtualServerWhateverTheAddresses) {
  const auto row = Row("t/np", {NodePort(30080)}, {"10.88.0.2"});
  const RowRules rules = CompileRow(*row, Context(), 0);
  const uint32_t mark = PortMark(30080, EndpointList::kCluster, true);
  ASSERT_EQ(rules.virtuals.size(), 1u);
  EXPECT_EQ(rules.virtuals.begin()->first, Mark(mark));
  EXPECT_THAT(rules.addresses, IsEmpty());
  const std::string to = " tcp . 30080 : " + std::to_string(mark);
  EXPECT_THAT(Names(rules.elements),
              UnorderedElementsAre("port-marks-pod" + to, "port-marks-node" + to,
                                   "port-marks-outside" + to));
}

TEST(IpvsCompile, LocalPolicyHasAServerForEachListAndMasquerading) {
  const auto row = Row("t/np", {NodePort(30080, true)}, {"10.88.0.2", "10.89.0.2"}, {"10.88.0.2"});
  const RowRules rules = CompileRow(*row, Context(), 0);
  ASSERT_EQ(rules.virtuals.size(), 3u);
  EXPECT_EQ(rules.virtuals.at(Mark(PortMark(30080, EndpointList::kCluster, false))).endpoints,
            row->cluster);  // pods
  EXPECT_EQ(rules.virtuals.at(Mark(PortMark(30080, EndpointList::kCluster, true))).endpoints,
            row->cluster);  // the node
  EXPECT_EQ(rules.virtuals.at(Mark(PortMark(30080, EndpointList::kLocal, false))).endpoints,
            row->local);
}

TEST(IpvsCompile, OutsideWithoutLocalEndpointIsDropped) {
  const auto row =
      Row("t/lb", {Balancer("198.51.100.1", true), NodePort(30080, true)}, {"10.89.0.2"});
  const std::vector<std::string> names = Names(CompileRow(*row, Context(), 0).elements);
  EXPECT_THAT(names, Contains("outside-discard 198.51.100.1 . tcp . 80"));
  EXPECT_THAT(names, Contains("port-outside-discard tcp . 30080"));
  EXPECT_THAT(names, Not(Contains(::testing::HasSubstr("inside-discard"))));
  EXPECT_THAT(names, Not(Contains(::testing::HasSubstr("marks-outside"))));
}

TEST(IpvsCompile, AnAddressThatTheNodeHasIsNeverBound) {
  const auto row = Row("t/external", {At(model::FrontendKind::kExternalIp, "192.0.2.2", 80, kAll)},
                       {"10.88.0.2"});
  EXPECT_TRUE(NeedsSlot(*row, Context()));
  const RowRules rules = CompileRow(*row, Context(), 7);
  EXPECT_THAT(rules.addresses, IsEmpty());
  ASSERT_EQ(rules.virtuals.size(), 1u);
  EXPECT_NE(rules.virtuals.begin()->first.mark, 0u);
}

TEST(IpvsCompile, SourceRangesLetTheNodeInByTheAddressItself) {
  auto balancer = Balancer("198.51.100.1");
  balancer.restricted = true;
  balancer.source_ranges = {*Cidr::Parse("192.0.2.0/24")};
  auto names = Names(CompileRow(*Row("t/lb", {balancer}, {"10.88.0.2"}), Context(), 0).elements);
  EXPECT_THAT(names, Contains("restricted 198.51.100.1 . tcp . 80"));
  EXPECT_THAT(names, Contains("allowed-24 198.51.100.1 . tcp . 80 . 192.0.2.0"));
  EXPECT_THAT(names, Contains("allowed-32 198.51.100.1 . tcp . 80 . 198.51.100.1"));
  balancer.source_ranges = {*Cidr::Parse("203.0.113.0/24")};
  names = Names(CompileRow(*Row("t/lb", {balancer}, {"10.88.0.2"}), Context(), 0).elements);
  EXPECT_THAT(names, Not(Contains(::testing::HasSubstr("allowed-32"))));
}

TEST(IpvsCompile, MarksDifferAndKeepTheMasqueradeBitToItself) {
  for (const uint32_t bit : {1u, 0x4000u, 0x800000u, 0x02000000u, 0x80000000u}) {
    std::set<uint32_t> seen;
    size_t made = 0;
    for (const uint32_t id : {0u, 1u, 30000u, 32767u, 1u << 16 | 30000u, 1u << 21, 0x3fffffu}) {
      for (const auto list : {EndpointList::kCluster, EndpointList::kLocal}) {
        for (const bool masquerade : {false, true}) {
          const uint32_t mark = MarkOf(id, list, masquerade, bit);
          EXPECT_EQ((mark & bit) != 0, masquerade);
          EXPECT_NE(mark, 0u);
          seen.insert(mark);
          ++made;
        }
      }
    }
    EXPECT_EQ(seen.size(), made) << "bit " << bit;
  }
}

TEST(IpvsOptionsTest, FlagsBelongToTheirScheduler) {
  IpvsOptions options;
  EXPECT_EQ(SchedulerFlags(options).value_or(99), 0u);
  options.scheduler = "sh";
  options.scheduler_flags = {"sh-port", "sh-fallback"};
  EXPECT_EQ(SchedulerFlags(options).value_or(99), 0x18u);
  options.scheduler = "mh";
  EXPECT_FALSE(SchedulerFlags(options));
  options.scheduler_flags = {"mh-port"};
  EXPECT_EQ(SchedulerFlags(options).value_or(99), 0x10u);
  options.scheduler = "fastest";
  const auto unknown = SchedulerFlags(options);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message(), "ipvs: there is no scheduler \"fastest\"");
}

TEST(IpvsRules, NamesOfChainsDoNotDependOnServices) {
  const model::ServiceSettings settings;
  const nft::Table none = BuildRules(nft::Family::kIp, "t", settings, {});
  const nft::Table some = BuildRules(nft::Family::kIp, "t", settings, {8, 24});
  EXPECT_EQ(none.chains.size(), some.chains.size());
  EXPECT_EQ(none.sets.size() + 2, some.sets.size());
  for (const nft::Chain& chain : some.chains) {
    std::set<std::string> comments;
    for (const nft::Rule& rule : chain.rules) comments.insert(rule.comment);
    EXPECT_EQ(comments.size(), chain.rules.size()) << chain.name << ": comments tell rules apart";
  }
}

}  // namespace
}  // namespace holdfast::netproxy::ipvs
