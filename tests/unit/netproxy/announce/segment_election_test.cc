// SPDX-License-Identifier: Apache-2.0
// Nodes of one segment under a clock of the test: who answers at each millisecond.
#include "netproxy/announce/segment_election.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace holdfast::netproxy::announce {
namespace {

using std::chrono::milliseconds;

const IpAddress kAddress = *IpAddress::Parse("198.51.100.7");
constexpr int kForeign = 200;  // the last byte of the MAC of a machine that is no agent

MacAddress Mac(int node) { return {2, 0, 0, 0, 0, static_cast<uint8_t>(node)}; }

// A message takes a millisecond. Nodes of different sides do not hear each other.
class Segment : public testing::Test {
 protected:
  struct Node {
    std::unique_ptr<SegmentElection> election;
    uint8_t priority = 0;
    int side = 0;
    bool alive = true;
    bool frozen = false;
    int64_t next_tick = 0;
    std::vector<std::pair<int, Claim>> inbox;  // from whom
    std::vector<int> asked_by;
  };

  void Add(int number, uint8_t priority) {
    Node node;
    node.election = std::make_unique<SegmentElection>(Mac(number), priority, Now());
    node.priority = priority;
    node.next_tick = now_ + number % 7;
    nodes_[number] = std::move(node);
  }

  BootTime Now() const { return {milliseconds(now_)}; }

  void Do(int number, const Deeds& deeds) {
    if (!deeds.news.empty()) news_.push_back(deeds.news);
    Node& self = nodes_[number];
    for (auto& [other, node] : nodes_) {
      if (other == number || !node.alive || node.side != self.side) continue;
      if (deeds.announce) node.inbox.push_back({number, {kAddress, Mac(number), self.priority}});
      if (deeds.ask && (!deeds.whom || *deeds.whom == Mac(other))) node.asked_by.push_back(number);
    }
    if (deeds.ask && foreign_ && (!deeds.whom || *deeds.whom == Mac(kForeign))) {
      self.inbox.push_back({kForeign, {kAddress, Mac(kForeign), std::nullopt}});
    }
  }

  // What waited for a frozen node meets it first; it may say nothing that it may not say now.
  void Run(Node& node, int number) {
    for (const int asker : std::exchange(node.asked_by, {})) {
      if (!node.election->MayAnswer(Now())) continue;
      ++answers_[number];
      nodes_[asker].inbox.push_back({number, {kAddress, Mac(number), node.priority}});
    }
    for (const auto& [from, claim] : std::exchange(node.inbox, {})) {
      Do(number, node.election->Hear(claim, Now()));
    }
    if (now_ < node.next_tick) return;
    node.next_tick = now_ + kTickEvery.count();
    Do(number, node.election->Tick(Now()));
  }

  std::vector<int> Holders() const {
    std::vector<int> out;
    for (const auto& [number, node] : nodes_) {
      if (node.alive && !node.frozen && node.election->MayAnswer(Now())) out.push_back(number);
    }
    return out;
  }

  // Counts how long several answered, and nobody did.
  void Pass(milliseconds time) {
    for (const int64_t end = now_ + time.count(); now_ < end; ++now_) {
      for (auto& [number, node] : nodes_) {
        if (node.alive && !node.frozen) Run(node, number);
      }
      const size_t holders = Holders().size();
      if (holders > 1) ++several_;
      if (holders == 0) ++nobody_;
    }
  }

  std::map<int, Node> nodes_;
  bool foreign_ = false;
  int64_t now_ = 1'000'000;
  int64_t several_ = 0;
  int64_t nobody_ = 0;
  std::map<int, int> answers_;
  std::vector<std::string> news_;
};

TEST_F(Segment, TheHighestPriorityTakesTheAddressOnce) {
  Add(1, 100);
  Add(2, 200);
  Add(3, 50);
  Pass(milliseconds(2900));
  EXPECT_EQ(Holders(), std::vector<int>{});
  Pass(milliseconds(60'000));
  EXPECT_EQ(Holders(), std::vector<int>{2});
  EXPECT_EQ(several_, 0);
  EXPECT_EQ(news_.size(), 1u);
  EXPECT_EQ(nodes_[2].election->Describe(Now()), "held by this node, priority 200");
  EXPECT_EQ(nodes_[1].election->Describe(Now()), "held by 02:00:00:00:00:02, priority 200");
}

TEST_F(Segment, OfEqualsOneHoldsItAndKeepsIt) {
  for (int node = 1; node <= 5; ++node) Add(node, 100);
  Pass(milliseconds(10'000));
  ASSERT_EQ(Holders().size(), 1u);
  EXPECT_LE(several_, 5) << "those that took it in the same moment settle it at once";
  const int holder = Holders().front();
  Add(9, 100);
  Pass(milliseconds(20'000));
  EXPECT_EQ(Holders(), std::vector<int>{holder});
}

TEST_F(Segment, AKilledHolderIsReplacedInTime) {
  for (int round = 0; round < 20; ++round) {
    nodes_.clear();
    Add(1, 200);
    Add(2, 100);
    Pass(milliseconds(10'000 + 37 * round));
    ASSERT_EQ(Holders(), std::vector<int>{1});
    nodes_[1].alive = false;
    nobody_ = 0;
    Pass(milliseconds(10'000));
    ASSERT_EQ(Holders(), std::vector<int>{2});
    EXPECT_GE(nobody_, 2000) << "it may only have been slow";
    EXPECT_LE(nobody_, 4200);
  }
}

TEST_F(Segment, AFrozenHolderNeverAnswersAfterItsTime) {
  Add(1, 200);
  Add(2, 100);
  Pass(milliseconds(10'000));
  nodes_[1].frozen = true;
  Pass(milliseconds(10'000));
  ASSERT_EQ(Holders(), std::vector<int>{2});
  const int answers = answers_[1];
  several_ = 0;
  nodes_[1].asked_by.assign(10, 2);  // questions that waited in its socket
  nodes_[1].frozen = false;
  Pass(milliseconds(2900));
  EXPECT_EQ(answers_[1], answers);
  EXPECT_EQ(Holders(), std::vector<int>{2});
  Pass(milliseconds(5000));
  EXPECT_EQ(Holders(), std::vector<int>{1}) << "and comes back as any other that is preferred";
  EXPECT_LE(several_, 2) << "while its announcement is on the way";
}

TEST_F(Segment, EachSideOfADividedSegmentAnswersAndOneYieldsAfterwards) {
  Add(1, 200);
  Add(2, 100);
  Pass(milliseconds(10'000));
  nodes_[2].side = 1;
  Pass(milliseconds(10'000));
  EXPECT_EQ(Holders(), (std::vector<int>{1, 2})) << "as docs/services.md says";
  nodes_[2].side = 0;
  Pass(milliseconds(10'100));
  EXPECT_EQ(Holders(), std::vector<int>{1});
}

TEST_F(Segment, AMachineThatIsNoAgentIsNeverArguedWith) {
  foreign_ = true;
  Add(1, 254);
  Pass(milliseconds(20'000));
  EXPECT_EQ(Holders(), std::vector<int>{});
  EXPECT_EQ(nodes_[1].election->Describe(Now()),
            "held by 02:00:00:00:00:c8, which is no agent of ours");
  foreign_ = false;
  Pass(milliseconds(5000));
  ASSERT_EQ(Holders(), std::vector<int>{1});
  const Deeds deeds = nodes_[1].election->Hear({kAddress, Mac(kForeign), std::nullopt}, Now());
  EXPECT_FALSE(deeds.announce);
  EXPECT_EQ(Holders(), std::vector<int>{});
}

TEST_F(Segment, WhoCannotSpeakHoldsNothing) {
  Add(1, 100);
  Pass(milliseconds(10'000));
  ASSERT_EQ(Holders(), std::vector<int>{1});
  nodes_[1].election->LoseSight(Now());
  EXPECT_EQ(Holders(), std::vector<int>{});
  Pass(milliseconds(2900));
  EXPECT_EQ(Holders(), std::vector<int>{});
  Pass(milliseconds(2000));
  EXPECT_EQ(Holders(), std::vector<int>{1});
}

// Freezes, deaths, restarts and new priorities at random; the segment is whole all the time.
TEST_F(Segment, RandomFaultsLeaveOneHolder) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    nodes_.clear();
    several_ = 0;
    int faults = 0;
    for (int node = 1; node <= 4; ++node) Add(node, static_cast<uint8_t>(50 * (random() % 5 + 1)));
    for (int step = 0; step < 30; ++step) {
      Pass(milliseconds(random() % 6000));
      const int victim = static_cast<int>(random() % 4) + 1;
      Node& node = nodes_[victim];
      ++faults;
      switch (random() % 3) {
        case 0:
          node.frozen = !node.frozen;
          break;
        case 1:
          node.alive = false;
          break;
        default:
          Add(victim, static_cast<uint8_t>(50 * (random() % 5 + 1)));
      }
    }
    Add(5, 10);  // somebody lives
    for (auto& [number, node] : nodes_) node.frozen = false;
    Pass(milliseconds(15'000));
    EXPECT_EQ(Holders().size(), 1u) << "seed " << seed;
    EXPECT_LE(several_, 4 * faults) << "seed " << seed << ": more than announcements on their way";
  }
}

}  // namespace
}  // namespace holdfast::netproxy::announce
