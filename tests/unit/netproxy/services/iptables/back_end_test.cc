// SPDX-License-Identifier: Apache-2.0
// The back end on a model of the kernel: small changes end where complete ones do, one bad row
// costs nobody else, and nothing of others is touched.
#include "netproxy/services/iptables/back_end.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/netproxy/services/iptables/model_host.h"
#include "tests/unit/netproxy/services/iptables/rows.h"

namespace holdfast::netproxy::iptables {
namespace {

using enum model::FrontendKind;

class BackEndTest : public ::testing::Test {
 protected:
  BackEndTest() { Restart(); }

  // A new back end, as after a restart of the agent.
  void Restart() {
    auto host = std::make_unique<ModelHost>();
    if (host_ != nullptr) *host = *host_;
    host_ = host.get();
    back_end_ = std::make_unique<IptablesBackEnd>(std::move(host),
                                                  std::vector<std::unique_ptr<XtablesHost>>());
  }

  Result<ServiceApplied> Apply(bool complete, std::vector<model::ServicePortRowPtr> rows,
                               std::vector<model::ServicePortKey> removed = {}) {
    model::ServiceChange change;
    change.version = ++version_;
    change.complete = complete;
    change.settings = settings_;
    change.rows = std::move(rows);
    change.removed = std::move(removed);
    host_->written.clear();
    return back_end_->Apply(change);
  }
  void MustApply(bool complete, std::vector<model::ServicePortRowPtr> rows,
                 std::vector<model::ServicePortKey> removed = {}) {
    const auto applied = Apply(complete, std::move(rows), std::move(removed));
    ASSERT_TRUE(applied.has_value()) << applied.error().message();
    EXPECT_TRUE(applied->refused.empty());
  }
  uint64_t Differences() {
    const auto found = back_end_->Repair();
    EXPECT_TRUE(found.has_value());
    return found.value_or(999);
  }
  std::vector<std::string>& Rules(const std::string& table, const std::string& chain) {
    return host_->kernels[0].tables[table][chain];
  }

  ModelHost* host_ = nullptr;
  std::unique_ptr<IptablesBackEnd> back_end_;
  std::shared_ptr<model::ServiceSettings> settings_ = Settings();
  uint64_t version_ = 0;
};

model::ServicePortRowPtr Web(const std::vector<std::string>& endpoints) {
  return Share(Row("a/web", {ClusterIp("10.96.0.1"), NodePort(30080)}, endpoints));
}

TEST_F(BackEndTest, ACompleteChangeTakesOverAndWritesNothingTwice) {
  Rules("filter", "INPUT") = {"-s 192.0.2.9 -j DROP"};
  MustApply(true, {Web({"10.0.0.1"})});
  EXPECT_EQ(
      Rules("filter", "INPUT"),
      (std::vector<std::string>{
          R"(-m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL)",
          R"(-m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS)",
          R"(-m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES)",
          "-s 192.0.2.9 -j DROP"}));
  EXPECT_EQ(Differences(), 0u);
  Restart();
  MustApply(true, {Web({"10.0.0.1"})});
  EXPECT_TRUE(host_->written.empty()) << host_->written.front();
}

TEST_F(BackEndTest, AChangeWritesOnlyWhatChanged) {
  MustApply(true, {Web({"10.0.0.1"}), Share(Row("b/c", {ClusterIp("10.96.0.2")}, {"10.0.0.7"}))});
  MustApply(false, {Web({"10.0.0.1", "10.0.0.2"})});
  ASSERT_EQ(host_->written.size(), 1u);
  const std::string& text = host_->written.front();
  EXPECT_NE(text.find("*nat\n:KUBE-SEP-"), std::string::npos) << text;
  EXPECT_NE(text.find(" - [0:0]\n:KUBE-SVC-"), std::string::npos) << text;
  EXPECT_EQ(text.find("-d 10.96.0.1 --dport 80 -j KUBE-SVC-"), std::string::npos) << text;
  EXPECT_EQ(text.find("KUBE-SERVICES"), std::string::npos) << text;
  EXPECT_EQ(text.find("10.0.0.7"), std::string::npos) << text;
  EXPECT_TRUE(text.starts_with("*nat\n")) << text;
}

TEST_F(BackEndTest, RefusalsComeBeforeAndGoAfter) {
  MustApply(true, {Web({"10.0.0.1"})});
  MustApply(false, {Web({})});
  ASSERT_EQ(host_->written.size(), 1u);
  EXPECT_LT(host_->written[0].find("*filter"), host_->written[0].find("*nat"));
  MustApply(false, {Web({"10.0.0.1"})});
  ASSERT_EQ(host_->written.size(), 1u);
  EXPECT_LT(host_->written[0].find("*nat"), host_->written[0].find("*filter"));
}

TEST_F(BackEndTest, ForeignFlushIsRepaired) {
  MustApply(true, {Web({"10.0.0.1"})});
  const ModelKernel before = host_->kernels[0];
  host_->kernels[0] = ModelKernel();
  EXPECT_GT(Differences(), 10u);
  EXPECT_EQ(host_->kernels[0], before);
  Rules("nat", "KUBE-SERVICES").pop_back();
  EXPECT_EQ(Differences(), 1u);
  std::swap(Rules("filter", "INPUT")[0], Rules("filter", "INPUT")[2]);
  EXPECT_EQ(Differences(), 1u);
  Rules("nat", "KUBE-SVC-AAAAAAAAAAAAAAAA") = {"-j ACCEPT"};
  EXPECT_EQ(Differences(), 1u);
  EXPECT_EQ(host_->kernels[0], before);
  EXPECT_EQ(Differences(), 0u);
}

TEST_F(BackEndTest, AFailedChangeIsMadeUpForByAFullOne) {
  MustApply(true, {Web({"10.0.0.1"})});
  host_->fail_next = true;
  MustApply(false, {Web({"10.0.0.2"})});
  EXPECT_EQ(host_->written.size(), 2u);
  EXPECT_EQ(host_->tries, 0);
  EXPECT_EQ(Differences(), 0u);
}

TEST_F(BackEndTest, KilledAfterAnyTableTheNextStartConverges) {
  model::Frontend balancer = External(kLoadBalancerIp, "203.0.113.1", 80);
  balancer.restricted = true;
  const auto shape = [&](const std::vector<std::string>& endpoints) {
    return Share(Row("a/web", {ClusterIp("10.96.0.1"), balancer}, endpoints));
  };
  for (const bool complete : {true, false}) {
    for (int commits = 0; commits < 4; ++commits) {
      host_->kernels[0] = host_->kernels[1] = ModelKernel();
      Restart();
      if (!complete) MustApply(true, {shape({"10.0.0.1"})});
      host_->commits_left = commits;
      const auto applied = Apply(complete, {complete ? shape({"10.0.0.1"}) : shape({})});
      host_->commits_left = 1 << 30;
      if (!applied) {
        EXPECT_FALSE(Apply(false, {shape({})}).has_value()) << "unknown state";
      }
      Restart();
      MustApply(true, {shape({"10.0.0.2"})});
      const ModelKernel after = host_->kernels[0];
      host_->kernels[0] = ModelKernel();
      Restart();
      MustApply(true, {shape({"10.0.0.2"})});
      EXPECT_EQ(host_->kernels[0], after) << commits;
    }
  }
}

TEST_F(BackEndTest, OnePoisonedServiceAmongAThousand) {
  std::vector<model::ServicePortRowPtr> rows;
  for (int i = 0; i < 1000; ++i) {
    rows.push_back(
        Share(Row(StrCat("many/s", i), {ClusterIp(StrCat("10.96.", i / 200, ".", 1 + i % 200))},
                  {i == 613 ? "10.66.66.66" : "10.0.0.1"})));
  }
  host_->poison = "10.66.66.66";
  const auto applied = Apply(true, rows);
  ASSERT_TRUE(applied.has_value()) << applied.error().message();
  ASSERT_EQ(applied->refused.size(), 1u);
  EXPECT_EQ(applied->refused[0].key.name, "many/s613");
  EXPECT_EQ(applied->refused[0].reason, "iptables-restore: bad 10.66.66.66");
  EXPECT_LE(host_->tries, 22);
  EXPECT_EQ(Rules("nat", "KUBE-SERVICES").size(), 999u + 1);
  EXPECT_EQ(Differences(), 0u);
  // Named again, and good this time.
  host_->poison.clear();
  MustApply(false, {rows[613]});
  EXPECT_EQ(Rules("nat", "KUBE-SERVICES").size(), 1000u + 1);
}

TEST_F(BackEndTest, ABadChangeOfAGoodServiceLeavesNothingOfIt) {
  MustApply(true, {Web({"10.0.0.1"}), Share(Row("b/c", {ClusterIp("10.96.0.2")}, {"10.0.0.7"}))});
  host_->poison = "10.66.66.66";
  const auto applied = Apply(false, {Web({"10.66.66.66"})});
  ASSERT_TRUE(applied.has_value());
  ASSERT_EQ(applied->refused.size(), 1u);
  const std::string left = back_end_->Dump().value();
  EXPECT_EQ(left.find("a/web"), std::string::npos) << left;
  EXPECT_NE(left.find("b/c"), std::string::npos) << left;
}

TEST_F(BackEndTest, RemoveTakesEverythingOfOursAndNothingElse) {
  Rules("nat", "OUTPUT") = {"-d 192.0.2.9 -j KUBE-SVC-AAAAAAAAAAAAAAAA"};
  Rules("nat", "KUBE-SVC-AAAAAAAAAAAAAAAA") = {"-j ACCEPT"};  // kube-proxy's
  Rules("nat", "MINE") = {"-j KUBE-SEP-AAAAAAAAAAAAAAAA"};
  Rules("nat", "KUBE-SEP-AAAAAAAAAAAAAAAA") = {"-j ACCEPT"};
  Rules("filter", "KUBE-ROUTER-INPUT") = {"-j ACCEPT"};
  Rules("filter", "INPUT") = {"-j KUBE-ROUTER-INPUT"};
  ModelKernel expected = host_->kernels[0];
  auto& nat = expected.tables["nat"];
  nat["OUTPUT"] = {};
  nat.erase("KUBE-SVC-AAAAAAAAAAAAAAAA");
  nat["KUBE-SEP-AAAAAAAAAAAAAAAA"] = {};  // somebody else refers to it
  MustApply(true, {Web({"10.0.0.1"})});
  EXPECT_TRUE(back_end_->Remove().value_or(false));
  EXPECT_EQ(host_->kernels[0], expected);
  EXPECT_EQ(host_->kernels[1], ModelKernel());
  host_->written.clear();
  EXPECT_FALSE(back_end_->Remove().value_or(true)) << "nothing was left";
  EXPECT_TRUE(host_->written.empty());
  EXPECT_FALSE(Apply(false, {}).has_value()) << "nothing is known any more";
}

TEST_F(BackEndTest, RulesAreCounted) {
  const auto in_kernel = [&](const std::string& table) {
    uint64_t rules = 0;
    for (const auto& [chain, lines] : host_->kernels[0].tables[table]) rules += lines.size();
    return rules;
  };
  const auto expect = [&](const std::string& table, uint64_t written) {
    for (const RuleCount& count : back_end_->CountRules()) {
      if (count.v6 || count.table != table) continue;
      EXPECT_EQ(count.rules, in_kernel(table)) << table;
      EXPECT_EQ(count.written, written) << table;
    }
  };
  MustApply(true, {Web({"10.0.0.1", "10.0.0.2"})});
  for (const char* table : {"filter", "nat", "mangle"}) expect(table, in_kernel(table));
  MustApply(false, {Web({"10.0.0.1", "10.0.0.2", "10.0.0.3"})});
  // The service's own chain anew, and the two rules of the new endpoint.
  expect("nat", 4 + 2);
  expect("filter", 0);
  MustApply(false, {}, {Web({})->key});
  expect("nat", 1);  // what is left of KUBE-SERVICES
  MustApply(true, {});
  for (const char* table : {"filter", "nat"}) expect(table, 0);
}

TEST_F(BackEndTest, RouteLocalnetOnlyBehindItsGuard) {
  settings_->localhost_node_ports = true;
  MustApply(true, {Web({"10.0.0.1"})});
  EXPECT_EQ(host_->sysctls["net/ipv4/conf/all/route_localnet"], "1");
  EXPECT_EQ(Rules("filter", "KUBE-FIREWALL").size(), 1u);
  EXPECT_EQ(Rules("filter", "INPUT")[0], "-j KUBE-FIREWALL");
  ASSERT_TRUE(back_end_->Remove().has_value());
  EXPECT_EQ(host_->sysctls["net/ipv4/conf/all/route_localnet"], "0");
  EXPECT_EQ(host_->kernels[0], ModelKernel());

  // Somebody else's route_localnet keeps its guard.
  host_->sysctls["net/ipv4/conf/all/route_localnet"] = "1";
  MustApply(true, {Web({"10.0.0.1"})});
  ASSERT_TRUE(back_end_->Remove().has_value());
  EXPECT_EQ(host_->sysctls["net/ipv4/conf/all/route_localnet"], "1");
  EXPECT_EQ(Rules("filter", "KUBE-FIREWALL").size(), 1u);
}

TEST_F(BackEndTest, LargeClustersChangeTheirCommentsAndBack) {
  std::vector<std::string> many;
  for (int i = 0; i < 1001; ++i) many.push_back(StrCat("10.1.", i / 200, ".", 1 + i % 200));
  MustApply(true, {Web({"10.0.0.1"})});
  MustApply(false, {Share(Row("b/c", {ClusterIp("10.96.0.2")}, many))});
  EXPECT_EQ(back_end_->Dump()->find("->"), std::string::npos);
  MustApply(false, {}, {{"b/c", false}});
  EXPECT_NE(back_end_->Dump()->find("->"), std::string::npos);
  EXPECT_EQ(Differences(), 0u);
}

// --- Random changes ---

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int Below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  bool Coin() { return Below(2) == 1; }

  model::ServicePortRowPtr AnyRow(int service) {
    const bool v6 = service % 4 == 3;
    const std::string prefix = v6 ? "fd00:96::" : "10.96.0.";
    std::vector<model::Frontend> frontends = {ClusterIp(StrCat(prefix, service + 1))};
    const bool local = Coin();
    if (Coin()) {
      frontends[0].inside = frontends[0].outside =
          Coin() ? model::EndpointList::kLocal : model::EndpointList::kCluster;
    }
    if (Below(4) == 0) frontends[0].masquerade = static_cast<uint8_t>(Below(8));
    if (Coin()) {
      model::Frontend balancer = External(
          kLoadBalancerIp, StrCat(v6 ? "2001:db8::" : "203.0.113.", service + 1), 80, local);
      balancer.restricted = Coin();
      if (Coin()) balancer.source_ranges.push_back(Range(v6 ? "2001:db8:1::/64" : "192.0.2.0/25"));
      frontends.push_back(balancer);
    }
    if (Coin()) {
      model::Frontend port = NodePort(static_cast<uint16_t>(30000 + service), local);
      port.address.v6 = v6;
      frontends.push_back(port);
    }
    std::vector<std::string> cluster;
    std::vector<std::string> here;
    for (int i = 0; i < Below(5); ++i) {
      cluster.push_back(StrCat(v6 ? "fd00:1::" : "10.0.0.", i + 1));
      if (Coin()) here.push_back(cluster.back());
    }
    model::ServicePortRow row = Row(StrCat("random/s", service), frontends, cluster, here);
    if (Below(4) == 0) row.affinity = std::chrono::seconds(60);
    if (Below(4) == 0) row.health_check_port = static_cast<uint16_t>(31000 + service);
    return Share(std::move(row));
  }

 private:
  std::mt19937 engine_;
};

TEST_F(BackEndTest, ManySmallChangesEndWhereOneCompleteChangeDoes) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    host_->kernels[0] = host_->kernels[1] = ModelKernel();
    std::map<model::ServicePortKey, model::ServicePortRowPtr> rows;
    MustApply(true, {});
    for (int step = 0; step < 40; ++step) {
      std::map<model::ServicePortKey, model::ServicePortRowPtr> changed;
      std::vector<model::ServicePortKey> removed;
      for (int i = 0; i < 1 + random.Below(3); ++i) {
        const model::ServicePortRowPtr row = random.AnyRow(random.Below(12));
        if (random.Below(4) == 0 && rows.erase(row->key) == 1 && !changed.contains(row->key)) {
          removed.push_back(row->key);
        } else if (std::find(removed.begin(), removed.end(), row->key) == removed.end()) {
          changed[row->key] = row;
          rows[row->key] = row;
        }
      }
      std::sort(removed.begin(), removed.end());
      std::vector<model::ServicePortRowPtr> list;
      for (const auto& [key, row] : changed) {
        if (rows.contains(key)) list.push_back(row);
      }
      for (const auto& [key, row] : changed) {
        if (!rows.contains(key)) removed.push_back(key);
      }
      std::sort(removed.begin(), removed.end());
      MustApply(false, list, removed);
      EXPECT_LE(host_->written.size(), 2u) << "one for each family";
      ASSERT_EQ(Differences(), 0u) << "seed " << seed << " step " << step;
    }
    const ModelKernel small[2] = {host_->kernels[0], host_->kernels[1]};
    host_->kernels[0] = host_->kernels[1] = ModelKernel();
    std::vector<model::ServicePortRowPtr> all;
    for (const auto& [key, row] : rows) all.push_back(row);
    MustApply(true, all);
    EXPECT_EQ(host_->kernels[0], small[0]) << "seed " << seed;
    EXPECT_EQ(host_->kernels[1], small[1]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace holdfast::netproxy::iptables
