// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "netproxy/services/ipvs/plan.h"
#include "netproxy/services/ipvs/probe.h"
#include "tests/unit/netproxy/services/ipvs/rows.h"

namespace holdfast::netproxy::ipvs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr BootTime kNow{std::chrono::seconds(100)};
constexpr std::chrono::seconds kLimit{900};

std::vector<std::string> Texts(const std::vector<Operation>& operations) {
  std::vector<std::string> out;
  for (const Operation& operation : operations) out.push_back(ToString(operation));
  return out;
}

class IpvsPlan : public ::testing::Test {
 protected:
  IpvsPlan() { book_.Reset(Context()); }

  Plan Change(const std::vector<Step>& steps, BootTime now = kNow) {
    Plan plan;
    for (const VirtualKey& key : book_.Enter(steps).virtuals) {
      PlanServer(known_, key, book_.Find(key), now, plan);
    }
    return plan;
  }
  Plan Set(const std::vector<std::string>& endpoints, BootTime now = kNow) {
    const auto row = Row("t/web", {ClusterIp("10.96.0.1")}, endpoints);
    return Change({{row->key, row}}, now);
  }
  Observed Seen(uint32_t connections) const {
    Observed out;
    for (const auto& [key, server] : known_) {
      out[key].config = server.config;
      for (const auto& [endpoint, real] : server.reals) {
        out[key].reals[endpoint] = {real.weight, real.weight == 0 ? connections : 5};
      }
    }
    return out;
  }
  std::vector<std::string> Sweep(uint32_t connections, BootTime now) {
    return Texts(PlanSweep(known_, book_, Seen(connections), now, kLimit));
  }

  Book book_;
  Known known_;
};

TEST_F(IpvsPlan, OnlyTheDifferenceIsDone) {
  Plan plan = Set({"10.88.0.2"});
  EXPECT_THAT(Texts(plan.grow), ElementsAre("-A -t 10.96.0.1:80 -s rr -b flag-3",
                                            "-a -t 10.96.0.1:80 -r 10.88.0.2:8080 -m -w 1"));
  EXPECT_THAT(plan.shrink, IsEmpty());
  plan = Set({"10.88.0.2"});
  EXPECT_THAT(plan.grow, IsEmpty());
  EXPECT_THAT(plan.shrink, IsEmpty());
  plan = Set({"10.88.0.3"});
  EXPECT_THAT(Texts(plan.grow), ElementsAre("-a -t 10.96.0.1:80 -r 10.88.0.3:8080 -m -w 1"));
  EXPECT_THAT(Texts(plan.shrink), ElementsAre("-e -t 10.96.0.1:80 -r 10.88.0.2:8080 -m -w 0"));
}

TEST_F(IpvsPlan, WhoLeavesGoesWithItsLastConnection) {
  Set({"10.88.0.2", "10.88.0.3"});
  Set({"10.88.0.3"});
  EXPECT_THAT(Leaving(known_), ::testing::SizeIs(1));
  EXPECT_THAT(Sweep(0, kNow), IsEmpty()) << "what was seen before it lost its weight says nothing";
  EXPECT_THAT(Sweep(1, kNow + std::chrono::seconds(10)), IsEmpty());
  EXPECT_THAT(Sweep(0, kNow + std::chrono::seconds(20)),
              ElementsAre("-d -t 10.96.0.1:80 -r 10.88.0.2:8080"));
  EXPECT_THAT(Leaving(known_), IsEmpty());
}

TEST_F(IpvsPlan, WhoLeavesGoesWhenItsTimeIsOver) {
  Set({"10.88.0.2", "10.88.0.3"});
  Set({"10.88.0.3"});
  Set({"10.88.0.3"}, kNow + std::chrono::seconds(500));  // its time does not begin again
  EXPECT_THAT(Sweep(7, kNow + std::chrono::seconds(899)), IsEmpty());
  EXPECT_THAT(Sweep(7, kNow + std::chrono::seconds(900)),
              ElementsAre("-d -t 10.96.0.1:80 -r 10.88.0.2:8080"));
}

TEST_F(IpvsPlan, WhoReturnsGetsItsWeightBack) {
  Set({"10.88.0.2", "10.88.0.3"});
  Set({"10.88.0.3"});
  const Plan plan = Set({"10.88.0.2", "10.88.0.3"});
  EXPECT_THAT(Texts(plan.grow), ElementsAre("-e -t 10.96.0.1:80 -r 10.88.0.2:8080 -m -w 1"));
  EXPECT_THAT(plan.shrink, IsEmpty());
  EXPECT_THAT(Sweep(0, kNow + std::chrono::seconds(5000)), IsEmpty());
}

TEST_F(IpvsPlan, AServiceThatGoesServesItsConnectionsToTheEnd) {
  Set({"10.88.0.2"});
  const Plan plan = Change({{{"t/web", false}, nullptr}});
  EXPECT_THAT(Texts(plan.shrink), ElementsAre("-e -t 10.96.0.1:80 -r 10.88.0.2:8080 -m -w 0"));
  EXPECT_THAT(Sweep(0, kNow + std::chrono::seconds(1)),
              ElementsAre("-d -t 10.96.0.1:80 -r 10.88.0.2:8080", "-D -t 10.96.0.1:80"));
  EXPECT_THAT(known_, IsEmpty());
}

TEST_F(IpvsPlan, UdpGoesAtOnce) {
  const auto dns = [](const std::vector<std::string>& endpoints) {
    auto row = Row("t/dns", {ClusterIp("10.96.0.1")}, endpoints);
    row->protocol = model::L4Protocol::kUdp;
    return row;
  };
  Change({{{"t/dns", false}, dns({"10.88.0.2", "10.88.0.3"})}});
  EXPECT_THAT(Texts(Change({{{"t/dns", false}, dns({"10.88.0.3"})}}).shrink),
              ElementsAre("-d -u 10.96.0.1:80 -r 10.88.0.2:8080"));
  EXPECT_THAT(Texts(Change({{{"t/dns", false}, nullptr}}).shrink),
              ElementsAre("-d -u 10.96.0.1:80 -r 10.88.0.3:8080", "-D -u 10.96.0.1:80"));
}

TEST_F(IpvsPlan, UdpThatDrainsKeepsItsFlowsUntilItIsOver) {
  auto row = Row("t/dns", {ClusterIp("10.96.0.1")}, {"10.88.0.2"});
  row->protocol = model::L4Protocol::kUdp;
  Change({{row->key, row}});
  auto draining = std::make_shared<model::ServicePortRow>(*row);
  draining->cluster = Endpoints({"10.88.0.3"});
  draining->draining = Endpoints({"10.88.0.2"});
  EXPECT_THAT(Texts(Change({{row->key, draining}}).shrink),
              ElementsAre("-e -u 10.96.0.1:80 -r 10.88.0.2:8080 -m -w 0"));
  auto over = std::make_shared<model::ServicePortRow>(*draining);
  over->draining.clear();
  EXPECT_THAT(Texts(Change({{row->key, over}}).shrink),
              ElementsAre("-d -u 10.96.0.1:80 -r 10.88.0.2:8080"));
}

TEST_F(IpvsPlan, AnAddressMovesToAnotherServiceWithoutBeingTakenDown) {
  Set({"10.88.0.2"});
  const auto other = Row("t/other", {ClusterIp("10.96.0.1")}, {"10.88.0.3"});
  const Plan plan = Change({{{"t/web", false}, nullptr}, {other->key, other}});
  EXPECT_THAT(Texts(plan.grow), ElementsAre("-a -t 10.96.0.1:80 -r 10.88.0.3:8080 -m -w 1"));
  EXPECT_EQ(book_.OwnerOf(known_.begin()->first)->name, "t/other");
}

TEST_F(IpvsPlan, AfterARestartWhatHasNoWeightLeaves) {
  Set({"10.88.0.2", "10.88.0.3"});
  Set({"10.88.0.3"});
  known_ = FromObserved(Seen(3), {}, kNow + std::chrono::seconds(50));
  Plan plan;
  const VirtualKey key = known_.begin()->first;
  PlanServer(known_, key, book_.Find(key), kNow + std::chrono::seconds(50), plan);
  EXPECT_THAT(plan.grow, IsEmpty());
  EXPECT_THAT(plan.shrink, IsEmpty());
  EXPECT_THAT(Sweep(3, kNow + std::chrono::seconds(949)), IsEmpty());
  EXPECT_THAT(Sweep(3, kNow + std::chrono::seconds(950)), ::testing::SizeIs(1));
}

// What a change says is what a rebuild has.
TEST(IpvsBook, ChangesEqualARebuild) {
  std::mt19937 random(7);
  Book book;
  book.Reset(Context());
  std::set<RuleElement> elements;
  for (int i = 0; i < 2000; ++i) {
    std::vector<Step> steps;
    for (int n = 0; n < 3; ++n) {
      const std::string name = "t/" + std::to_string(random() % 12);
      if (std::any_of(steps.begin(), steps.end(),
                      [&](const Step& s) { return s.key.name == name; }))
        continue;
      Step step{{name, false}, nullptr};
      if (random() % 4 != 0) {
        const std::string number = name.substr(2);
        auto balancer = Balancer("198.51.100." + number, random() % 2 == 0);
        balancer.restricted = random() % 2 == 0;
        balancer.source_ranges = {{Ip("203.0.113.0"), static_cast<uint8_t>(24 + random() % 3)}};
        std::vector<model::Frontend> frontends = {ClusterIp("10.96.0." + number), balancer};
        if (random() % 2 == 0)
          frontends.push_back(NodePort(static_cast<uint16_t>(30000 + std::stoi(number))));
        std::vector<std::string> ends;
        for (unsigned e = 0; e < random() % 3; ++e)
          ends.push_back("10.88.0." + std::to_string(e + 2));
        step.row = Row(name, frontends, ends, ends);
      }
      steps.push_back(step);
    }
    const Book::Delta delta = book.Enter(steps);
    for (const RuleElement& e : delta.gone[0]) ASSERT_EQ(elements.erase(e), 1u);
    for (const RuleElement& e : delta.added[0]) ASSERT_TRUE(elements.insert(e).second);
    Book fresh;
    fresh.Reset(Context());
    std::vector<Step> all;
    for (const auto& row : book.AllRows()) all.push_back({row->key, row});
    fresh.Enter(all);
    ASSERT_EQ(fresh.virtuals(), book.virtuals());
    ASSERT_EQ(fresh.elements(false), book.elements(false));
    ASSERT_EQ(fresh.Addresses(), book.Addresses());
    ASSERT_EQ(fresh.Prefixes(false), book.Prefixes(false));
    ASSERT_EQ(elements.size(), book.elements(false).size());
  }
}

TEST(IpvsBook, RowsThatWantOneSlotGetTwo) {
  Book book;
  book.Reset(Context());
  // Both hash to the same slot of 2^20: found by trying.
  std::map<uint32_t, std::string> by_slot;
  std::string one;
  std::string two;
  for (int i = 0; one.empty(); ++i) {
    const std::string name = "t/" + std::to_string(i);
    const auto [it, fresh] = by_slot.emplace(PreferredSlot(name), name);
    if (fresh) continue;
    one = it->second;
    two = name;
  }
  const auto first = Row(one, {Balancer("198.51.100.1", true)}, {"10.88.0.2"}, {"10.88.0.2"});
  const auto second = Row(two, {Balancer("198.51.100.2", true)}, {"10.88.0.3"}, {"10.88.0.3"});
  book.Enter(std::vector<Step>{{first->key, first}, {second->key, second}});
  EXPECT_EQ(book.virtuals().size(), 4u) << "two by address, two by mark";
}

TEST(IpvsProbe, TheErrorTellsWhatIsMissingAndWhatToDo) {
  EXPECT_EQ(DescribeMissing({{"ip_vs_mh", ModuleFile::kAbsent}}, "6.1.0"),
            "not in this kernel (6.1.0): ip_vs_mh");
  EXPECT_EQ(DescribeMissing({{"ip_vs", ModuleFile::kPresent}, {"ip_vs_mh", ModuleFile::kAbsent}},
                            "6.1.0"),
            "not in this kernel (6.1.0): ip_vs_mh; not loaded: ip_vs (printf 'ip_vs\\n' > "
            "/etc/modules-load.d/holdfast-ipvs.conf, then restart systemd-modules-load)");
  EXPECT_EQ(DescribeMissing({{"ip_vs", ModuleFile::kPresent}, {"ip_vs_rr", ModuleFile::kUnknown}},
                            "6.1.0"),
            "not loaded: ip_vs, ip_vs_rr (printf 'ip_vs\\nip_vs_rr\\n' > "
            "/etc/modules-load.d/holdfast-ipvs.conf, then restart systemd-modules-load)");
}

}  // namespace
}  // namespace holdfast::netproxy::ipvs
