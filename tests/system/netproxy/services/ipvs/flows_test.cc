// SPDX-License-Identifier: Apache-2.0
// One UDP client that never stops sending from the same port, while its Service changes: IPVS and
// the connection table must forget together.
#include <gtest/gtest.h>

#include "tests/system/netproxy/services/flow_world.h"
#include "tests/system/netproxy/services/ipvs/ipvs_world.h"

namespace holdfast::netproxy {
namespace {

class IpvsFlows : public FlowWorld<IpvsFamilies> {
 protected:
  void SetUp() override {
    IpvsFamilies::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    OpenFlows();
    pod_ = Sender(NamespaceOf("client"), addresses_.at("client")[v6() ? 1 : 0]);
    client_ = Sender(outside_.get(), v6() ? "2001:db8::1" : "192.0.2.1");
  }

  std::shared_ptr<model::ServicePortRow> Dns(std::vector<std::string> endpoints) const {
    return RowOf(
        {"t/dns", model::L4Protocol::kUdp, std::move(endpoints), "vip:10", false, false, 30053},
        v6());
  }

  // The first packet may be what tells IPVS that its connection is over.
  void ExpectBoth(const std::string& name, const char* why) {
    const auto reaches = [&](const UniqueFd& from, const std::string& address, uint16_t port) {
      std::string met = Send(from, address, port);
      if (met != name) met = Send(from, address, port);
      EXPECT_EQ(met, name) << why << ": " << address;
    };
    reaches(pod_, Vip(), 53);
    reaches(client_, NodeIp(), 30053);
  }

  UniqueFd pod_;
  UniqueFd client_;
};
INSTANTIATE_TEST_SUITE_P(Families, IpvsFlows, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "IPv6" : "IPv4"; });

TEST_P(IpvsFlows, EveryChangeReachesASenderThatNeverStops) {
  Change(true, {Dns({"a"})});
  ExpectBoth("a", "the only one");
  Change(false, {Dns({"b"})});
  ExpectBoth("b", "another endpoint");
  Change(false, {Dns({"a", "b"})});
  ExpectBoth("b", "one more endpoint moves nobody");
  Change(false, {Dns({})});
  ExpectBoth("nobody", "the last endpoint went");
  Change(false, {Dns({"a"})});
  ExpectBoth("a", "the first endpoint came");
  Change(false, {}, {{"t/dns", v6()}});
  ExpectBoth("nobody", "the service went");
  Change(false, {Dns({"b"})});
  ExpectBoth("b", "it came again");
}

TEST_P(IpvsFlows, AnEndpointThatDrainsKeepsItsFlows) {
  Change(true, {Dns({"a"})});
  ExpectBoth("a", "the only one");
  auto draining = Dns({"b"});
  draining->draining = Endpoints({"a"}, v6());
  Change(false, {draining});
  ExpectBoth("a", "it drains");
  EXPECT_EQ(Try("outside", NodeIp(), 30053, model::L4Protocol::kUdp).endpoint, "b");
  Change(false, {Dns({"b"})});
  ExpectBoth("b", "it is gone");
}

}  // namespace
}  // namespace holdfast::netproxy
