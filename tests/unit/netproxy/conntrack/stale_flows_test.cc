// SPDX-License-Identifier: Apache-2.0
#include "netproxy/conntrack/stale_flows.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace holdfast::netproxy {
namespace {

IpAddress Ip(const std::string& text) { return IpAddress::Parse(text).value(); }

model::ServicePortRow Row(const std::vector<std::string>& endpoints) {
  model::ServicePortRow row;
  row.key = {"ns/dns", false};
  row.protocol = model::L4Protocol::kUdp;
  for (const std::string& ip : endpoints) row.cluster.push_back({Ip(ip), 5353});
  model::Frontend frontend;
  frontend.address = Ip("10.96.0.10");
  frontend.port = 53;
  row.frontends = {frontend};
  frontend.kind = model::FrontendKind::kNodePort;
  frontend.address = Ip("0.0.0.0");
  frontend.port = 30053;
  row.frontends.push_back(frontend);
  return row;
}

bool Stale(const FlowRules& rules, const std::string& destination, uint16_t port,
           const std::string& endpoint, uint16_t endpoint_port = 5353) {
  sys::Flow flow;
  flow.original_destination = Ip(destination);
  flow.original_destination_port = port;
  flow.reply_source = Ip(endpoint);
  flow.reply_source_port = endpoint_port;
  return rules.IsStale({false, model::L4Protocol::kUdp, port}, flow, {Ip("192.0.2.2")});
}

TEST(FlowRulesTest, FlowsOfAnEndpointThatWent) {
  const auto before = Row({"10.88.0.2", "10.88.0.3"});
  const auto after = Row({"10.88.0.3"});
  FlowRules rules;
  rules.Add(&before, &after);
  EXPECT_TRUE(Stale(rules, "10.96.0.10", 53, "10.88.0.2"));
  EXPECT_FALSE(Stale(rules, "10.96.0.10", 53, "10.88.0.3"));
  EXPECT_TRUE(Stale(rules, "10.96.0.10", 53, "10.96.0.10", 53)) << "sent on untranslated";
  EXPECT_TRUE(Stale(rules, "192.0.2.2", 30053, "10.88.0.2"));
  EXPECT_FALSE(Stale(rules, "198.51.100.1", 30053, "10.88.0.2")) << "no address of this node";
  EXPECT_FALSE(Stale(rules, "10.96.0.10", 54, "10.88.0.2"));
}

TEST(FlowRulesTest, NothingToDoWhereNothingWent) {
  const auto before = Row({"10.88.0.2"});
  auto after = Row({"10.88.0.2", "10.88.0.3"});
  FlowRules rules;
  rules.Add(&before, &after);
  EXPECT_TRUE(rules.Ports().empty());
  after = Row({"10.88.0.3"});
  after.draining = before.cluster;
  rules.Add(&before, &after);
  EXPECT_TRUE(rules.Ports().empty()) << "the old one drains";
}

TEST(FlowRulesTest, ServiceThatWentTakesItsFlowsAndNoOthers) {
  const auto before = Row({"10.88.0.2"});
  FlowRules rules;
  rules.Add(&before, nullptr);
  EXPECT_EQ(rules.Ports().size(), 2u);
  EXPECT_TRUE(Stale(rules, "10.96.0.10", 53, "10.88.0.2"));
  EXPECT_FALSE(Stale(rules, "192.0.2.2", 30053, "10.88.0.9")) << "somebody else's by now";
}

TEST(FlowRulesTest, AddressThatMovesToAnotherServiceKeepsWhatFits) {
  const auto before = Row({"10.88.0.2", "10.88.0.3"});
  auto after = Row({"10.88.0.3"});
  after.key.name = "ns/other";
  FlowRules rules;
  rules.Add(&before, nullptr);
  rules.Add(nullptr, &after);
  EXPECT_TRUE(Stale(rules, "10.96.0.10", 53, "10.88.0.2"));
  EXPECT_FALSE(Stale(rules, "10.96.0.10", 53, "10.88.0.3"));
}

TEST(FlowRulesTest, TcpEndsByItself) {
  auto before = Row({"10.88.0.2"});
  before.protocol = model::L4Protocol::kTcp;
  FlowRules rules;
  rules.Add(&before, nullptr);
  EXPECT_TRUE(rules.Ports().empty());
}

// The rules were away for a while; nobody has seen what was sent meanwhile.
TEST(FlowRulesTest, WhatBeganWithoutRulesGoesAndOfTcpOnlyWhatNobodyAnswered) {
  auto row = Row({"10.88.0.2"});
  FlowRules rules;
  rules.AddReturned(row);
  EXPECT_TRUE(Stale(rules, "10.96.0.10", 53, "10.96.0.10", 53));
  EXPECT_TRUE(Stale(rules, "192.0.2.2", 30053, "192.0.2.2", 30053));
  EXPECT_FALSE(Stale(rules, "10.96.0.10", 53, "10.88.0.2"));

  row.protocol = model::L4Protocol::kTcp;
  FlowRules tcp;
  tcp.AddReturned(row);
  EXPECT_EQ(tcp.Ports().size(), 2u);
  sys::Flow flow;
  flow.original_destination = flow.reply_source = Ip("10.96.0.10");
  flow.original_destination_port = flow.reply_source_port = 53;
  const FlowRules::Port port{false, model::L4Protocol::kTcp, 53};
  EXPECT_FALSE(tcp.IsStale(port, flow, {})) << "somebody's connection";
  flow.answered = false;
  EXPECT_TRUE(tcp.IsStale(port, flow, {}));
  EXPECT_FALSE(rules.IsStale(port, flow, {})) << "another protocol's";
  flow.reply_source = Ip("10.88.0.2");
  flow.reply_source_port = 5353;
  EXPECT_FALSE(tcp.IsStale(port, flow, {})) << "on its way to an endpoint";
}

TEST(FlowRulesTest, WhatAFormerAgentLeftBehindGoesWhereThereIsNoServiceAgain) {
  const auto now = Row({"10.88.0.3"});
  FlowRules rules;
  rules.Add(nullptr, &now);
  rules.AddLeftBehind({{false, model::L4Protocol::kUdp, 53}, Ip("10.96.0.11")});
  rules.AddLeftBehind({{false, model::L4Protocol::kUdp, 30054}, Ip("0.0.0.0")});
  EXPECT_TRUE(Stale(rules, "10.96.0.11", 53, "10.88.0.2"));
  EXPECT_FALSE(Stale(rules, "10.96.0.11", 53, "10.96.0.11", 53)) << "never translated";
  EXPECT_TRUE(Stale(rules, "192.0.2.2", 30054, "10.88.0.2"));
  EXPECT_FALSE(Stale(rules, "198.51.100.1", 30054, "10.88.0.2")) << "no address of this node";
  EXPECT_FALSE(Stale(rules, "10.96.0.10", 53, "10.88.0.3")) << "there is a Service";
}

class FlowRecordTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(directory_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string Path() const { return directory_ + "/made/flows"; }
  std::string directory_ = testing::TempDir() + "flow-record-XXXXXX";
};

TEST_F(FlowRecordTest, IsReadAsItWasWritten) {
  const std::set<FlowPlace> places = {{{false, model::L4Protocol::kUdp, 53}, Ip("10.96.0.10")},
                                      {{false, model::L4Protocol::kSctp, 30053}, Ip("0.0.0.0")},
                                      {{true, model::L4Protocol::kUdp, 53}, Ip("fd00::a")}};
  auto record = FlowRecord::Load(Path());
  ASSERT_TRUE(record) << record.error().message();
  EXPECT_TRUE(record->places().empty());
  ASSERT_TRUE(record->Add(places));
  EXPECT_EQ(FlowRecord::Load(Path())->places(), places);
  ASSERT_TRUE(record->Replace({*places.begin()}));
  EXPECT_EQ(FlowRecord::Load(Path())->places(), (std::set<FlowPlace>{*places.begin()}));
}

TEST_F(FlowRecordTest, SaysWhichLineIsNone) {
  ASSERT_TRUE(FlowRecord::Load(Path()));
  for (const char* line : {"tcp 53 10.96.0.10", "udp 70000 10.96.0.10", "udp 53 10.96.0", "udp 53",
                           "udp 53 10.96.0.10 more", ""}) {
    std::ofstream(Path()) << "udp 53 10.96.0.10\n" << line << "\n";
    auto record = FlowRecord::Load(Path());
    ASSERT_FALSE(record) << line;
    EXPECT_TRUE(record.error().message().starts_with(Path() + ":2: ")) << record.error().message();
  }
}

TEST_F(FlowRecordTest, AFailedWriteLeavesItAsItWas) {
  auto record = FlowRecord::Load(Path());
  ASSERT_TRUE(record);
  std::filesystem::remove_all(directory_ + "/made");
  const FlowPlace place{{false, model::L4Protocol::kUdp, 53}, Ip("10.96.0.10")};
  EXPECT_FALSE(record->Add({place}));
  EXPECT_TRUE(record->places().empty());
}

}  // namespace
}  // namespace holdfast::netproxy
