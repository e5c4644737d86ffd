// SPDX-License-Identifier: Apache-2.0
// One UDP client that never stops sending from the same port, while its Service changes: IPVS and
// the connection table must forget together.
#include <gtest/gtest.h>

#include <optional>

#include "netproxy/conntrack/stale_flows.h"
#include "tests/system/netproxy/ipvs/ipvs_world.h"

namespace holdfast::netproxy {
namespace {

class IpvsFlows : public IpvsFamilies {
 protected:
  void SetUp() override {
    IpvsFamilies::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto flows = StaleFlows::Open();
    ASSERT_OK(flows);
    flows_.emplace(std::move(*flows));
    pod_ = Socket(NamespaceOf("client"), SOCK_DGRAM, addresses_.at("client")[v6() ? 1 : 0], 7000,
                  false);
    client_ = Socket(outside_.get(), SOCK_DGRAM, v6() ? "2001:db8::1" : "192.0.2.1", 7000, false);
  }

  std::shared_ptr<model::ServicePortRow> Dns(std::vector<std::string> endpoints) const {
    return RowOf(
        {"t/dns", model::L4Protocol::kUdp, std::move(endpoints), "vip:10", false, false, 30053},
        v6());
  }

  // Rules first, then flows.
  void Change(bool complete, std::vector<model::ServicePortRowPtr> rows,
              std::vector<model::ServicePortKey> removed = {}) {
    model::ServiceChange change;
    change.version = ++version_;
    change.complete = complete;
    change.settings = settings_;
    change.rows = std::move(rows);
    change.removed = std::move(removed);
    EXPECT_OK(back_end_->Apply(change));
    EXPECT_OK(flows_->After(change));
  }

  std::string Send(const UniqueFd& sender, const std::string& address, uint16_t port) {
    SockAddr to = SockAddr::Of(address, port);
    char byte = 'x';
    if (::sendto(sender.get(), &byte, 1, 0, to.get(), to.size) != 1) {
      return ::strerrorname_np(errno);
    }
    return ReceivedBy();
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

  std::optional<StaleFlows> flows_;
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
