// SPDX-License-Identifier: Apache-2.0
// Changes of Services in nf_tables, seen by real connections and by nft.
#include <gtest/gtest.h>

#include "netproxy/services/nft/back_end.h"
#include "tests/system/netproxy/services/runner.h"

namespace holdfast::netproxy {
namespace {

class NftChanges : public ServiceRunner, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    ServiceRunner::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto opened = nft::NftServices::Open("holdfast-services");
    ASSERT_OK(opened);
    back_end_ = std::move(*opened);
  }

  bool v6() const { return GetParam(); }
  std::string Vip() const { return v6() ? "fd00:96::10" : "10.96.0.10"; }

  model::ServicePortRowPtr Row(const std::string& name, const std::string& vip, uint16_t port,
                               const std::vector<std::string>& endpoints) const {
    auto row = std::make_shared<model::ServicePortRow>();
    row->key = {name, v6()};
    row->cluster = Endpoints(endpoints, v6());
    for (const std::string& endpoint : endpoints) {
      if (endpoint != "c") row->local.push_back(EndpointOf(endpoint, v6()));
    }
    std::sort(row->local.begin(), row->local.end());
    row->frontends = {ClusterIp(vip, port)};
    return row;
  }

  ServiceApplied Apply(bool complete, std::vector<model::ServicePortRowPtr> rows,
                       std::vector<model::ServicePortKey> removed = {}) {
    return ApplyExactly(complete, std::move(rows), std::move(removed));
  }

  Names Reached(uint16_t port, int tries = 40) {
    return ServiceRunner::Reached("client", Vip(), port, tries);
  }
};
INSTANTIATE_TEST_SUITE_P(Families, NftChanges, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "IPv6" : "IPv4"; });

using Names = std::set<std::string>;

TEST_P(NftChanges, EndpointsComeAndGoOneByOne) {
  Apply(true, {Row("default/web", Vip(), 80, {"a", "b"})});
  EXPECT_EQ(Reached(80), (Names{"a", "b"}));
  Apply(false, {Row("default/web", Vip(), 80, {"a", "b", "c"})});
  EXPECT_EQ(Reached(80, 80), (Names{"a", "b", "c"}));
  Apply(false, {Row("default/web", Vip(), 80, {"b", "c"})});
  EXPECT_EQ(Reached(80), (Names{"b", "c"}));
  Apply(false, {Row("default/web", Vip(), 80, {"a", "c"})});
  EXPECT_EQ(Reached(80), (Names{"a", "c"}));
  Apply(false, {Row("default/web", Vip(), 80, {"a"})});
  EXPECT_EQ(Reached(80, 10), (Names{"a"}));
  Apply(false, {Row("default/web", Vip(), 80, {})});
  EXPECT_EQ(Reached(80, 2), (Names{"refused"}));
  Apply(false, {Row("default/web", Vip(), 80, {"b"})});
  EXPECT_EQ(Reached(80, 10), (Names{"b"}));
  Apply(false, {}, {{"default/web", v6()}});
  EXPECT_EQ(Reached(80, 1), (Names{"dropped"})) << "a cluster IP that no service has";
}

TEST_P(NftChanges, AnAddressMovesFromOneServiceToAnother) {
  Apply(true, {Row("default/one", Vip(), 80, {"a"}), Row("default/two", Vip(), 81, {"b"})});
  Apply(false, {Row("default/two", Vip(), 80, {"b"})}, {{"default/one", v6()}});
  EXPECT_EQ(Reached(80, 10), (Names{"b"}));
  EXPECT_EQ(Reached(81, 1), (Names{"refused"})) << "no service at this port";
}

TEST_P(NftChanges, RestartTakesOverAndTouchesNothing) {
  Apply(true, {Row("default/web", Vip(), 80, {"a", "b", "c"})});
  Apply(false, {Row("default/web", Vip(), 80, {"b", "c"})});  // slots: c, b
  const std::string before = Command("nft -a list ruleset");
  auto opened = nft::NftServices::Open("holdfast-services");
  ASSERT_OK(opened);
  back_end_ = std::move(*opened);
  Apply(true, {Row("default/web", Vip(), 80, {"b", "c"})});
  EXPECT_EQ(Command("nft -a list ruleset"), before);
  EXPECT_EQ(Reached(80), (Names{"b", "c"}));
}

}  // namespace
}  // namespace holdfast::netproxy
