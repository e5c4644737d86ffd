// SPDX-License-Identifier: Apache-2.0
// Changes of Services in iptables, seen by real connections and by iptables-save.
#include <gtest/gtest.h>

#include "holdfast/sys/files.h"
#include "netproxy/services/iptables/plan.h"
#include "tests/system/netproxy/services/iptables/iptables_world.h"

namespace holdfast::netproxy {
namespace {

class IptablesChanges : public IptablesWorld {};
INSTANTIATE_TEST_SUITE_P(Kinds, IptablesChanges,
                         ::testing::Combine(::testing::Values("nft", "legacy"), ::testing::Bool()),
                         [](const auto& p) {
                           return StrCat(std::get<0>(p.param), std::get<1>(p.param) ? "6" : "4");
                         });

TEST_P(IptablesChanges, EndpointsAndServicesComeAndGo) {
  const auto web = [&](const std::vector<std::string>& endpoints) {
    return Row("default/web", {ClusterIp(Vip(), 80), NodePort(30080)}, endpoints);
  };
  Apply(true, Rows{web({"a", "b"})});
  EXPECT_EQ(Reached("client", Vip(), 80), (Names{"a", "b"}));
  EXPECT_EQ(Reached("node", Vip(), 80), (Names{"a", "b"}));
  EXPECT_EQ(Reached("outside", NodeIp(), 30080), (Names{"a", "b"}));
  EXPECT_EQ(WhoIs(Try("client", Vip(), 80).source, "client"), "client");
  EXPECT_EQ(WhoIs(Try("outside", NodeIp(), 30080).source, "outside"), "node");
  Apply(false, Rows{web({"b", "c"})});
  EXPECT_EQ(Reached("client", Vip(), 80), (Names{"b", "c"}));
  Apply(false, Rows{web({})});
  EXPECT_EQ(Reached("client", Vip(), 80, 1), (Names{"refused"}));
  EXPECT_EQ(Reached("outside", NodeIp(), 30080, 1), (Names{"refused"}));
  EXPECT_EQ(Reached("node", NodeIp(), 30080, 1), (Names{"refused"}));
  Apply(false, Rows{web({"a"})});
  EXPECT_EQ(Reached("client", Vip(), 80, 5), (Names{"a"}));
  EXPECT_EQ(WhoIs(Try("a", Vip(), 80).source, "a"), "node") << "to itself";
  Apply(false, Rows{}, {{"default/web", v6()}});
  EXPECT_EQ(Rules().find("default/web"), std::string::npos) << Rules();
  EXPECT_EQ(Rules().find("KUBE-SEP-"), std::string::npos) << Rules();
}

TEST_P(IptablesChanges, AnAddressMovesFromOneServiceToAnother) {
  Apply(true, Rows{Row("default/one", {ClusterIp(Vip(), 80)}, {"a"}),
                   Row("default/two", {ClusterIp(Vip(), 81)}, {"b"})});
  Apply(false, Rows{Row("default/two", {ClusterIp(Vip(), 80)}, {"b"})}, {{"default/one", v6()}});
  EXPECT_EQ(Reached("client", Vip(), 80, 8), (Names{"b"}));
}

TEST_P(IptablesChanges, RestartTakesOverAndAForeignFlushIsRepaired) {
  const model::ServicePortRow row = Row("default/web", {ClusterIp(Vip(), 80)}, {"a", "b"});
  Apply(true, Rows{row});
  const std::string before = back_end_->Dump().value_or("");
  Restart();
  Apply(true, Rows{row});
  EXPECT_EQ(back_end_->Dump().value_or(""), before);
  Command(Program(" -t nat -F"));
  Command(Program(" -t nat -X"));
  Command(Program(" -t filter -D OUTPUT 1"));
  EXPECT_EQ(Try("client", Vip(), 80).source, "") << "nobody answers";
  auto repaired = back_end_->Repair();
  ASSERT_OK(repaired);
  EXPECT_GT(*repaired, 5u);
  EXPECT_EQ(back_end_->Dump().value_or(""), before);
  EXPECT_EQ(Reached("client", Vip(), 80), (Names{"a", "b"}));
}

TEST_P(IptablesChanges, AServiceThatIsRefusedLeavesTheOthersAlone) {
  model::ServicePortRow bad = Row("default/bad", {ClusterIp(Vip(9), 80)}, {"b"});
  bad.cluster[0] = EndpointOf("b", !v6());  // of the other family: the program does not take it
  std::vector<model::ServicePortRow> rows = {bad};
  for (int i = 1; i < 8; ++i) {
    rows.push_back(Row(StrCat("default/good", i), {ClusterIp(Vip(i), 80)}, {"a"}));
  }
  ServiceApplied applied = Apply(true, rows);
  ASSERT_EQ(applied.refused.size(), 1u);
  EXPECT_EQ(applied.refused[0].key.name, "default/bad");
  EXPECT_FALSE(applied.refused[0].reason.empty());
  for (int i = 1; i < 8; ++i) EXPECT_EQ(Reached("client", Vip(i), 80, 1), (Names{"a"}));
  EXPECT_EQ(Rules().find("default/bad"), std::string::npos);
  rows[1].cluster = rows[0].cluster;
  applied = Apply(false, Rows{rows[1]});
  ASSERT_EQ(applied.refused.size(), 1u);
  EXPECT_EQ(Rules().find("default/good1"), std::string::npos) << Rules();
  EXPECT_EQ(Reached("client", Vip(2), 80, 1), (Names{"a"}));
  applied = Apply(false, Rows{Row("default/bad", {ClusterIp(Vip(9), 80)}, {"b"})});
  EXPECT_TRUE(applied.refused.empty());
  EXPECT_EQ(Reached("client", Vip(9), 80, 1), (Names{"b"}));
}

TEST_P(IptablesChanges, RemoveLeavesWhatOthersMade) {
  Command(Program(" -t nat -N OTHERS"));
  Command(Program(" -t nat -A OTHERS -j RETURN"));
  Command(Program(" -t filter -A INPUT -p tcp --dport 4444 -j DROP"));
  Command(Program(" -t mangle -N OTHERS"));
  const std::string before = iptables::PrintOurs(*iptables::ParseSaved(Rules()));
  EXPECT_EQ(before, "");
  Apply(true, Rows{Row("default/web", {ClusterIp(Vip(), 80), NodePort(30080)}, {"a", "b"})});
  EXPECT_NE(Rules().find("KUBE-SVC-"), std::string::npos);
  ASSERT_OK(back_end_->Remove());
  const std::string after = Rules();
  EXPECT_EQ(after.find("KUBE"), std::string::npos) << after;
  EXPECT_NE(after.find("-A OTHERS -j RETURN"), std::string::npos) << after;
  EXPECT_NE(after.find("-A INPUT -p tcp -m tcp --dport 4444 -j DROP"), std::string::npos) << after;
  ASSERT_OK(back_end_->Remove());
}

TEST_P(IptablesChanges, DumpLoadsAgain) {
  model::ServicePortRow row = Row("default/web", {ClusterIp(Vip(), 80), NodePort(30080)}, {"a"});
  row.affinity = std::chrono::seconds(60);
  Apply(true, Rows{row});
  const std::string file = StrCat(directory_, "/rules");
  auto dumped = back_end_->Dump();
  ASSERT_OK(dumped);
  const size_t six = dumped->find("# IPv6");
  auto dir = sys::OpenDir(directory_);
  ASSERT_OK(dir);
  ASSERT_OK(sys::WriteFileAtomicAt(dir->get(), "rules",
                                   v6() ? dumped->substr(six) : dumped->substr(0, six), 0600));
  ASSERT_OK(back_end_->Remove());
  Command(StrCat(Program("-restore"), " --noflush < ", file));
  EXPECT_EQ(Reached("client", Vip(), 80, 3), (Names{"a"}));
}

}  // namespace
}  // namespace holdfast::netproxy
