// SPDX-License-Identifier: Apache-2.0
// Two nodes, a client and an API server: whose answers the client's socket gets when nodes die,
// stand still, or lose the API server or the segment. Never both. One after the other: a request to
// the API server has a second, which several at once may not get on a busy machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "agent/proxy/announcements.h"
#include "netproxy/announce/election.h"
#include "tests/fakes/fake_service_back_end.h"
#include "tests/system/agent/lease/lease_world.h"

namespace holdfast::netproxy::announce {
namespace {

constexpr milliseconds kLong{40'000};
// After the last renewal: kPatience, up to a second until the taker has seen that one, its turn and
// its announcer's; and what a busy machine adds.
constexpr milliseconds kFailover{8000};
constexpr milliseconds kSlack{500};  // until this program has read what the client's socket got

model::ServiceChange LoadBalancers() {
  model::ServiceChange change;
  change.complete = true;
  for (const std::string& address : kAddresses) {
    auto row = std::make_shared<model::ServicePortRow>();
    row->key = {"default/web:http", address.find(':') != std::string::npos};
    row->cluster = {{*IpAddress::Parse(row->key.v6 ? "fd00:88::1" : "10.88.0.1"), 80}};
    model::Frontend frontend;
    frontend.kind = model::FrontendKind::kLoadBalancerIp;
    frontend.address = *IpAddress::Parse(address);
    row->frontends = {frontend};
    change.rows.push_back(row);
  }
  return change;
}

TEST(Node, DISABLED_Announces) {
  const char* kubeconfig = std::getenv("ANNOUNCE_KUBECONFIG");
  if (kubeconfig == nullptr) GTEST_SKIP() << "only for the tests below";
  const SystemClock clock;
  agent::AgentConfig config;
  config.proxy.announce.interfaces = {"eth0"};
  config.proxy.announce.addresses = {"198.51.100.0/24", "2001:db8:100::/64"};
  config.proxy.announce.kubeconfig = kubeconfig;
  config.instance.node_name = StrCat("node-of-", ::getpid());
  const auto options = agent::ReadAnnounceOptions(config.instance, config.proxy);
  ASSERT_OK(options);
  FakeServiceBackEnd rules;
  auto announcements =
      agent::Announcements::Start(**options, rules, clock, [](const std::string&) {});
  ASSERT_OK(announcements);
  ASSERT_OK((*announcements)->Apply(LoadBalancers()));
  const int parent = std::stoi(std::getenv("ANNOUNCE_PARENT"));
  while (::getppid() == parent) std::this_thread::sleep_for(milliseconds(100));
}

// What the client heard of one address, between two nodes.
struct Change {
  BootTime last_of_old;
  BootTime first_of_new;
  int returns = 0;  // answers of the old one after the new one's first
};

class LeaseTest : public LeaseWorld {
 protected:
  // Node 1 has it, node 2 is ready to.
  void StartBoth() {
    StartNode(1, 100);
    ASSERT_TRUE(Until(kLong, [&] { return OnlyAnswers(1); }));
    StartNode(2, 100);
    // One that listens asks once a second: four times, and it has listened long enough.
    const BootTime ready = clock_.Boot() + kPatience + milliseconds(1500);
    for (const Heard& heard : Watch(kLong, [&] { return clock_.Boot() >= ready; })) {
      ASSERT_EQ(heard.machine, 1);
    }
  }

  // Watches until both addresses have been node 2's for a second.
  std::vector<Heard> WatchTheChange(BootTime began) {
    std::vector<Heard> all;
    const auto firsts = [&] {
      std::set<std::string> out;
      for (const Heard& heard : all) {
        if (heard.machine == 2) out.insert(heard.address);
      }
      return out.size();
    };
    std::optional<BootTime> both;
    while (clock_.Boot() - began < kLong && (!both || clock_.Boot() - *both < milliseconds(1000))) {
      for (Heard& heard : Watch(milliseconds(50), [] { return false; })) {
        all.push_back(std::move(heard));
      }
      if (!both && firsts() == kAddresses.size()) both = clock_.Boot();
    }
    return all;
  }

  static Change ChangeOf(const std::string& address, const std::vector<Heard>& all,
                         BootTime began) {
    Change change{began, {}, 0};
    for (const Heard& heard : all) {
      if (heard.address != address) continue;
      if (heard.machine == 2 && change.first_of_new == BootTime()) change.first_of_new = heard.at;
      if (heard.machine != 1) continue;
      if (change.first_of_new == BootTime()) {
        change.last_of_old = heard.at;
      } else {
        ++change.returns;
      }
    }
    return change;
  }

  static int64_t Ms(std::chrono::nanoseconds time) {
    return std::chrono::duration_cast<milliseconds>(time).count();
  }
  static void Tell(const char* what, const std::string& address, const Change& change,
                   BootTime began) {
    std::cout << "  " << what << ", " << address << ": silent after "
              << Ms(change.last_of_old - began) << " ms, the other answers after "
              << Ms(change.first_of_new - began) << " ms\n";
  }
};

TEST_F(LeaseTest, AKilledHolderIsReplacedAfterThreeSecondsOfSilence) {
  StartBoth();
  const BootTime began = clock_.Boot();
  Kill(1);
  std::map<std::string, LeaseRecord> left;
  for (const std::string& address : kAddresses) left[address] = LeaseOf(address);
  const auto all = WatchTheChange(began);
  for (const std::string& address : kAddresses) {
    const Change change = ChangeOf(address, all, began);
    Tell("killed", address, change, began);
    ASSERT_NE(change.first_of_new, BootTime()) << address;
    EXPECT_EQ(change.returns, 0);
    const LeaseRecord taken = LeaseOf(address);
    std::cout << "  its Lease was taken " << Ms(taken.acquired - left[address].renewed)
              << " ms after the last renewal\n";
    EXPECT_GE(taken.acquired - left[address].renewed, kPatience);
    EXPECT_LE(change.first_of_new - began, kFailover);
    EXPECT_EQ(taken.transitions, left[address].transitions + 1);
    EXPECT_NE(taken.holder, left[address].holder);
  }
}

TEST_F(LeaseTest, AHolderWithoutTheApiServerIsSilentBeforeTheOtherAnswers) {
  StartBoth();
  Cut(1);
  const BootTime began = clock_.Boot();  // no renewal was sent after this
  const auto all = WatchTheChange(began);
  for (const std::string& address : kAddresses) {
    const Change change = ChangeOf(address, all, began);
    Tell("cut off", address, change, began);
    ASSERT_NE(change.first_of_new, BootTime()) << address;
    EXPECT_EQ(change.returns, 0);
    EXPECT_LE(change.last_of_old - began, kFence + kSlack);
    EXPECT_GT(change.first_of_new - change.last_of_old, kPatience - kFence - kSlack);
    EXPECT_LE(change.first_of_new - began, kFailover);
  }
  Mend(1);
  const BootTime mended = clock_.Boot();
  for (const Heard& heard :
       Watch(kLong, [&] { return clock_.Boot() - mended > milliseconds(4000); })) {
    EXPECT_EQ(heard.machine, 2) << "nobody is preferred";
  }
}

TEST_F(LeaseTest, WithoutAnyApiServerNobodyAnswers) {
  StartBoth();
  Cut(1);
  Cut(2);
  const BootTime began = clock_.Boot();
  BootTime last = began;
  for (const Heard& heard :
       Watch(kLong, [&] { return clock_.Boot() - began > milliseconds(6000); })) {
    last = heard.at;
  }
  EXPECT_LE(last - began, kFence + kSlack);
  Mend(1);
  Mend(2);
  // By one each; each address has a Lease of its own, so they may be two.
  EXPECT_TRUE(Until(kLong, [&] {
    return std::all_of(kAddresses.begin(), kAddresses.end(),
                       [&](const std::string& address) { return WhoAnswers(address).size() == 1; });
  }));
}

// A cable that is pulled: the Lease is given back, so nobody waits for a fence.
TEST_F(LeaseTest, AHolderWithoutTheSegmentGivesTheAddressAway) {
  StartBoth();
  const BootTime began = clock_.Boot();
  In(hub_.get(), "ip link set p1 down");
  const auto all = WatchTheChange(began);
  In(hub_.get(), "ip link set p1 up");
  for (const std::string& address : kAddresses) {
    const Change change = ChangeOf(address, all, began);
    Tell("without the segment", address, change, began);
    ASSERT_NE(change.first_of_new, BootTime()) << address;
    EXPECT_LE(change.first_of_new - began, kFailover);
  }
  const BootTime back = clock_.Boot();
  for (const Heard& heard :
       Watch(kLong, [&] { return clock_.Boot() - back > milliseconds(4500); })) {
    EXPECT_EQ(heard.machine, 2);
  }
}

// Stopped anywhere for longer than the other one's patience: also between the decision to write the
// Lease and the request, and between the decision to answer and the frame.
class Standstills : public LeaseTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Standstills,
                         testing::Values("announce.lease-renew:8", "announce.answer:50"),
                         [](const auto& point) { return point.index == 0 ? "renew" : "answer"; });

TEST_P(Standstills, AHolderThatStoodStillIsSilentWhenItGoesOn) {
  const std::string point = GetParam();
  StartNode(1, 100, point);
  ASSERT_TRUE(Until(kLong, [&] {
    for (const std::string& address : kAddresses) AskOnly(address);
    return IsPausedAt(point.substr(0, point.find(':')));
  }));
  StartNode(2, 100);
  ASSERT_TRUE(Until(kLong, [&] { return OnlyAnswers(2); }));
  Signal(1, SIGCONT);
  const BootTime began = clock_.Boot();
  for (const Heard& heard :
       Watch(kLong, [&] { return clock_.Boot() - began > milliseconds(4000); })) {
    EXPECT_EQ(heard.machine, 2);
  }
}

class PausePoints : public LeaseTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(, PausePoints, testing::Values("take", "renew", "give-back"),
                         [](const auto& point) { return StrCat("at", point.index); });

TEST_P(PausePoints, KilledThereAnotherOneTakesOver) {
  const std::string point = StrCat("announce.lease-", GetParam());
  StartNode(1, 100, point);
  if (GetParam() == std::string("give-back")) {
    ASSERT_TRUE(Until(kLong, [&] { return OnlyAnswers(1); }));
    In(hub_.get(), "ip link set p1 down");
  }
  ASSERT_TRUE(Until(kLong, [&] { return IsPausedAt(point); }));
  Kill(1);
  In(hub_.get(), "ip link set p1 up");
  StartNode(2, 100);
  EXPECT_TRUE(Until(kLong, [&] { return OnlyAnswers(2); }));
}

}  // namespace
}  // namespace holdfast::netproxy::announce
