// SPDX-License-Identifier: Apache-2.0
// Changes of Services in IPVS: who leaves, what restarts, repairs and clean-up do.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "netproxy/services/nft/back_end.h"
#include "tests/support/eventually.h"
#include "tests/system/netproxy/services/ipvs/ipvs_world.h"

namespace holdfast::netproxy {
namespace {

using model::L4Protocol;
using test_support::Eventually;
using Clock = std::chrono::steady_clock;

class IpvsChanges : public IpvsFamilies {
 protected:
  // Weight by endpoint name, of the only virtual server.
  std::map<std::string, uint32_t> Weights() const {
    std::map<std::string, uint32_t> out;
    for (const auto& [key, server] : Observe()) {
      for (const auto& [endpoint, real] : server.reals) out[WhoHas(endpoint.ip)] = real.weight;
    }
    return out;
  }
  std::string WhoHas(const IpAddress& ip) const {
    for (const auto& [name, ips] : addresses_) {
      if (ips[v6() ? 1 : 0] == ip.ToString()) return name;
    }
    return ip.ToString();
  }
  void RepairUntil(const std::function<bool()>& done, const char* what) {
    for (const auto end = Clock::now() + std::chrono::seconds(60); !done();) {
      ASSERT_LT(Clock::now(), end) << what << "\n" << back_end_->Dump().value_or("");
      ::poll(nullptr, 0, 200);
      ASSERT_OK(back_end_->Repair());
    }
  }
};
using Weight = std::map<std::string, uint32_t>;
INSTANTIATE_TEST_SUITE_P(Families, IpvsChanges, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "IPv6" : "IPv4"; });

TEST_P(IpvsChanges, EndpointsComeAndGoOneByOne) {
  options_.drain_limit = std::chrono::seconds(1);
  Restart();
  Apply(true, {Web({"a", "b"})});
  EXPECT_EQ(Reached("client", Vip(), 80), (Names{"a", "b"}));
  Apply(false, {Web({"a", "b", "c"})});
  EXPECT_EQ(Reached("client", Vip(), 80), (Names{"a", "b", "c"}));
  Apply(false, {Web({"b", "c"})});
  EXPECT_EQ(Reached("client", Vip(), 80), (Names{"b", "c"}));
  Apply(false, {Web({})});
  EXPECT_EQ(Reached("client", Vip(), 80, 2), (Names{"refused"}));
  Apply(false, {Web({"b"})});
  EXPECT_EQ(Reached("client", Vip(), 80, 5), (Names{"b"}));
  Apply(false, {}, {{"t/web", v6()}});
  RepairUntil([&] { return Observe().empty(); }, "its time is over");
  EXPECT_EQ(Command("ip -o address show dev holdfast-ipvs").find(Vip()), std::string::npos);
  EXPECT_EQ(Reached("client", Vip(), 80, 1), (Names{"dropped"}))
      << "an address that no service has";
}

TEST_P(IpvsChanges, WhoLeavesServesItsConnectionsToTheEnd) {
  Apply(true, {Web({"a"})});
  auto held = Hold("client", Vip(), 80);
  ASSERT_TRUE(Talks(held));
  Apply(false, {Web({"b"})});
  EXPECT_EQ(Weights(), (Weight{{"a", 0}, {"b", 1}}));
  EXPECT_EQ(Reached("client", Vip(), 80, 10), (Names{"b"}));
  EXPECT_TRUE(Talks(held)) << "an established connection stays";
  Apply(false, {Web({"a", "b"})});
  EXPECT_EQ(Weights(), (Weight{{"a", 1}, {"b", 1}})) << "who returns gets its weight back";
  EXPECT_TRUE(Talks(held));
  Apply(false, {Web({"b"})});
  Restart();
  Apply(true, {Web({"b"})});
  EXPECT_TRUE(Talks(held)) << "a restarted agent knows who leaves";
  EXPECT_EQ(Weights(), (Weight{{"a", 0}, {"b", 1}}));
  // A reset: an orderly end is kept for two minutes.
  const linger at_once{1, 0};
  ::setsockopt(held.first.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  held.first.Reset();
  RepairUntil([&] { return Weights() == Weight{{"b", 1}}; }, "the last connection has ended");
}

TEST_P(IpvsChanges, WhoLeavesGoesWhenItsTimeIsOver) {
  options_.drain_limit = std::chrono::seconds(2);
  Restart();
  Apply(true, {Web({"a"})});
  const auto held = Hold("client", Vip(), 80);
  ASSERT_TRUE(Talks(held));
  Apply(false, {Web({"b"})});
  EXPECT_EQ(Weights(), (Weight{{"a", 0}, {"b", 1}}));
  RepairUntil([&] { return Weights() == Weight{{"b", 1}}; }, "the time is over");
}

TEST_P(IpvsChanges, AServiceThatGoesServesItsConnectionsToTheEnd) {
  Apply(true, {Web({"a"})});
  const auto held = Hold("client", Vip(), 80);
  ASSERT_TRUE(Talks(held));
  Apply(false, {}, {{"t/web", v6()}});
  EXPECT_TRUE(Talks(held));
  EXPECT_EQ(Reached("client", Vip(), 80, 2), (Names{"refused"}));
  EXPECT_TRUE(Talks(held));
}

TEST_P(IpvsChanges, UdpLeavesAtOnce) {
  Apply(true, {Web({"a", "b"}, L4Protocol::kUdp)});
  for (int i = 0; i < 4; ++i) Try("client", Vip(), 53, L4Protocol::kUdp);
  Apply(false, {Web({"b"}, L4Protocol::kUdp)});
  EXPECT_EQ(Weights(), (Weight{{"b", 1}}));
  EXPECT_EQ(Try("client", Vip(), 53, L4Protocol::kUdp).endpoint, "b");
}

TEST_P(IpvsChanges, AnAddressMovesFromOneServiceToAnother) {
  const auto row = [&](const char* name, const char* vip, std::vector<std::string> endpoints) {
    return RowOf({name, L4Protocol::kTcp, std::move(endpoints), vip}, v6());
  };
  Apply(true, {row("t/one", "vip:10", {"a"}), row("t/two", "vip:11", {"b"})});
  Apply(false, {row("t/two", "vip:10", {"b"})}, {{"t/one", v6()}});
  EXPECT_EQ(Reached("client", Vip(10), 80, 10), (Names{"b"}));
  EXPECT_EQ(Reached("client", Vip(11), 80, 1).contains("b"), false);
  // Two services change places.
  Apply(true, {row("t/one", "vip:10", {"a"}), row("t/two", "vip:11", {"b"})});
  Apply(false, {row("t/one", "vip:11", {"a"}), row("t/two", "vip:10", {"b"})});
  EXPECT_EQ(Reached("client", Vip(10), 80, 10), (Names{"b"}));
  EXPECT_EQ(Reached("client", Vip(11), 80, 10), (Names{"a"}));
}

TEST_P(IpvsChanges, RestartTakesOverAndTouchesNothing) {
  auto rows = AllRows(v6());
  Apply(true, rows);
  const std::string rules = Command("nft -a list ruleset");
  const std::string addresses = Command("ip address show dev holdfast-ipvs");
  Restart();
  Apply(true, rows);
  EXPECT_EQ(Command("nft -a list ruleset"), rules);
  EXPECT_EQ(Command("ip address show dev holdfast-ipvs"), addresses);
}

TEST_P(IpvsChanges, WhatAnotherProgramDidIsPutRight) {
  Apply(true, AllRows(v6()));
  const std::string list = StrCat("nft list table ", v6() ? "ip6" : "ip", " holdfast-ipvs");
  const ipvs::Observed before = Observe();
  const std::string rules = Command(list);
  auto kernel = ipvs::IpvsKernel::Open();
  ASSERT_OK(kernel);
  // Takes one away, weighs one down, and adds one to another.
  std::vector<ipvs::Operation> harm;
  for (const auto& [key, server] : before) {
    if (server.reals.empty()) continue;
    const auto& endpoint = server.reals.begin()->first;
    switch (harm.size()) {
      case 0:
        harm.push_back({ipvs::Operation::Kind::kDeleteVirtual, key, {}, {}, 1});
        break;
      case 1:
        harm.push_back({ipvs::Operation::Kind::kSetReal, key, {}, endpoint, 0});
        break;
      case 2:
        harm.push_back({ipvs::Operation::Kind::kDeleteReal, key, {}, endpoint, 1});
        break;
      default:
        break;
    }
  }
  const auto harmed = kernel->Send(harm);
  ASSERT_OK(harmed);
  EXPECT_EQ(*harmed, std::vector<int>(3, 0));
  Command(StrCat("ip address del ", Vip(), v6() ? "/128" : "/32", " dev holdfast-ipvs"));
  Command(StrCat("nft flush chain ", v6() ? "ip6" : "ip", " holdfast-ipvs postrouting"));
  EXPECT_GE(back_end_->Repair().value_or(0), 5u);
  EXPECT_EQ(back_end_->Repair().value_or(99), 0u);
  const ipvs::Observed after = Observe();
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [key, server] : before) {
    EXPECT_EQ(after.at(key).config, server.config);
    EXPECT_EQ(after.at(key).reals.size(), server.reals.size()) << ToString(key);
  }
  EXPECT_EQ(Command(list), rules);
  Command("ip link del holdfast-ipvs; nft flush ruleset");
  EXPECT_GT(back_end_->Repair().value_or(0), 0u);
  // The kernel makes an IPv6 address of a new link usable on a worker of its own, a moment later.
  EXPECT_TRUE(Eventually([&] { return Try("outside", Vip(), 80).endpoint != "dropped"; }));
  EXPECT_EQ(Reached("outside", Vip(), 80), (Names{"a", "b", "c"}));
}

TEST_P(IpvsChanges, OthersVirtualServersAreLeftAlone) {
  ipvs::Operation theirs;
  theirs.key.v6 = v6();
  theirs.key.protocol = 6;
  theirs.key.address = Ip(NodeIp());
  theirs.key.port = 7777;
  theirs.config.scheduler = "rr";
  auto kernel = ipvs::IpvsKernel::Open();
  ASSERT_OK(kernel);
  ASSERT_EQ(kernel->Send(std::array{theirs}).value_or(std::vector<int>{1}), std::vector<int>{0});
  // One that kube-proxy left on an address of a service is taken over.
  ipvs::Operation leftover = theirs;
  leftover.key.address = Ip(Vip());
  leftover.key.port = 80;
  ASSERT_EQ(kernel->Send(std::array{leftover}).value_or(std::vector<int>{1}), std::vector<int>{0});
  Apply(true, {Web({"a"})});
  EXPECT_EQ(Reached("client", Vip(), 80, 5), (Names{"a"}));
  ASSERT_OK(back_end_->Remove());
  ASSERT_EQ(Observe().size(), 1u);
  EXPECT_EQ(Observe().begin()->first, theirs.key);
}

TEST_P(IpvsChanges, ARefusedServiceIsQuarantinedAndTheOthersWork) {
  auto bad = RowOf({"t/bad", L4Protocol::kTcp, {"a"}, "vip:11"}, v6());
  bad->cluster = {{Ip(v6() ? "ff02::5" : "224.0.0.5"), 80}};  // no unicast address
  bad->local.clear();
  for (const bool complete : {true, false}) {
    ServiceApplied applied = Apply(complete, {bad, Web({"a", "b"})});
    ASSERT_EQ(applied.refused.size(), 1u);
    EXPECT_EQ(applied.refused[0].key.name, "t/bad");
    EXPECT_NE(applied.refused[0].reason.find("invalid argument"), std::string::npos)
        << applied.refused[0].reason;
    EXPECT_EQ(Reached("client", Vip(), 80, 10), (Names{"a", "b"}));
    EXPECT_EQ(Observe().size(), 1u) << "nothing is left of a refused row";
  }
  EXPECT_TRUE(
      Apply(false, {RowOf({"t/bad", L4Protocol::kTcp, {"a"}, "vip:11"}, v6())}).refused.empty());
  EXPECT_EQ(Reached("client", Vip(11), 80, 5), (Names{"a"}));
}

// proxyMode changes while the node runs: the new mode's rules come before the old one's go.
TEST_P(IpvsChanges, AnotherModeTakesOverAndGivesBack) {
  auto nft = nft::NftServices::Open("holdfast-services");
  ASSERT_OK(nft);
  const auto rows = AllRows(v6());
  const auto served = [&] { return Reached("outside", Vip(), 80); };
  std::unique_ptr<ServiceBackEnd> ipvs = std::move(back_end_);
  back_end_ = std::move(*nft);
  Apply(true, rows);
  const auto held = Hold("client", Vip(), 80);
  ASSERT_TRUE(Talks(held));
  std::swap(ipvs, back_end_);
  Apply(true, rows);
  EXPECT_EQ(served(), (Names{"a", "b", "c"})) << "both modes";
  ASSERT_OK(ipvs->Remove());
  EXPECT_TRUE(Talks(held)) << "connections of the nftables mode go on";
  EXPECT_EQ(served(), (Names{"a", "b", "c"})) << "IPVS alone";
  EXPECT_EQ(back_end_->Repair().value_or(99), 0u);
  std::swap(ipvs, back_end_);
  Apply(true, rows);
  EXPECT_EQ(served(), (Names{"a", "b", "c"})) << "both again";
  ASSERT_OK(ipvs->Remove());
  EXPECT_EQ(served(), (Names{"a", "b", "c"})) << "nftables alone";
  EXPECT_TRUE(Talks(held));
}

TEST_P(IpvsChanges, AddressesMayBeLocalRoutes) {
  options_.use_dummy = false;
  Restart();
  Apply(true, AllRows(v6()));
  EXPECT_EQ(Command("ip -o link").find("holdfast-ipvs"), std::string::npos);
  EXPECT_EQ(Reached("outside", Vip(), 80), (Names{"a", "b", "c"}));
  EXPECT_EQ(Reached("node", Vip(), 80), (Names{"a", "b", "c"}));
  EXPECT_EQ(Reached("client", Vip(14), 80, 1), (Names{"refused"}));
  ASSERT_OK(back_end_->Remove());
  EXPECT_EQ(Command(StrCat("ip ", v6() ? "-6" : "-4", " route show table local")).find(Vip()),
            std::string::npos);
}

}  // namespace
}  // namespace holdfast::netproxy
