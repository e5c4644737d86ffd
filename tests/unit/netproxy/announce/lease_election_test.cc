// SPDX-License-Identifier: Apache-2.0
// Nodes and one server of Leases under a clock of the test: requests and answers take their time,
// get lost, arrive after their sender gave them up; nodes freeze, die, come back, have clocks that
// run at other speeds. Never may two of them answer.
#include "netproxy/announce/lease_election.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "netproxy/announce/election.h"

namespace holdfast::netproxy::announce {
namespace {

using Kind = LeaseRequest::Kind;

class Server {
 public:
  Result<LeaseRecord> Handle(const LeaseRequest& request) {
    if (request.kind == Kind::kGet) {
      if (!lease_) return NotFound("lease");
      return *lease_;
    }
    if (request.kind == Kind::kCreate) {
      if (lease_) return Error(Code::kAlreadyExists, "lease");
    } else {
      if (!lease_) return NotFound("lease");
      if (lease_->version != request.record.version) return Conflict("lease");
    }
    lease_ = request.record;
    lease_->version = StrCat(++version_);
    return *lease_;
  }
  void Delete() { lease_.reset(); }
  const std::optional<LeaseRecord>& lease() const { return lease_; }

 private:
  std::optional<LeaseRecord> lease_;
  uint64_t version_ = 100;
};

struct Faults {
  int latency_ms = 5;    // at most, each way
  int lost_percent = 0;  // requests, and answers
  int late_percent = 0;  // requests that take up to 10 s
};

class LeaseWorld : public testing::Test {
 protected:
  static constexpr int64_t kGiveUpMs = 1000;

  struct Node {
    std::unique_ptr<LeaseElection> election;
    bool alive = true;
    bool frozen = false;
    bool cut_off = false;
    bool wanted = true;
    double speed = 1;       // of its boot clock
    int64_t offset_ms = 0;  // of both clocks
    int64_t request = 0;    // outstanding; 0: none
    int64_t sent_at = 0;
  };
  struct Packet {
    int64_t at = 0;
    int node = 0;
    int64_t request = 0;
    std::optional<LeaseRequest> to_server;
    std::optional<Result<LeaseRecord>> answer;
    const LeaseElection* sender = nullptr;  // a restarted node gets no answers of its former self
  };

  void Add(int number) {
    Node node;
    node.election = std::make_unique<LeaseElection>(StrCat("node-", number, "-", ++lives_));
    node.offset_ms = static_cast<int64_t>(random_() % 100'000'000);
    node.speed = 0.9 + 0.2 * static_cast<double>(random_() % 100) / 100;
    nodes_[number] = std::move(node);
  }

  BootTime Boot(const Node& node) const {
    const double ms = static_cast<double>(now_) * node.speed;
    return {std::chrono::milliseconds(static_cast<int64_t>(ms) + node.offset_ms)};
  }

  int64_t Delay() {
    return 1 + static_cast<int64_t>(random_() % static_cast<unsigned>(faults_.latency_ms));
  }
  bool Happens(int percent) { return static_cast<int>(random_() % 100) < percent; }

  void SendRequest(int number, Node& node, LeaseRequest request) {
    node.request = ++requests_;
    node.sent_at = now_;
    if (node.cut_off || Happens(faults_.lost_percent)) return;
    const int64_t late =
        Happens(faults_.late_percent) ? static_cast<int64_t>(random_() % 10'000) : 0;
    packets_.push_back(
        {now_ + Delay() + late, number, node.request, std::move(request), {}, node.election.get()});
  }

  void Deliver(Packet packet) {
    Node& node = nodes_[packet.node];
    if (packet.to_server) {
      auto answer = server_.Handle(*packet.to_server);
      if (Happens(faults_.lost_percent)) return;
      packets_.push_back(
          {now_ + Delay(), packet.node, packet.request, {}, std::move(answer), packet.sender});
      return;
    }
    if (!node.alive || node.election.get() != packet.sender || node.request != packet.request ||
        node.cut_off) {
      return;
    }
    if (node.frozen) {  // it waits in the socket
      packet.at = now_ + 1;
      packets_.push_back(std::move(packet));
      return;
    }
    node.request = 0;
    node.election->Done(*packet.answer, Boot(node));
  }

  void Run(int number, Node& node) {
    if (node.request != 0 && now_ - node.sent_at > kGiveUpMs) {
      node.request = 0;
      node.election->Done(Error(Code::kDeadlineExceeded, "no answer"), Boot(node));
    }
    auto request = node.election->Next(Boot(node), {}, node.wanted);
    if (request) SendRequest(number, node, std::move(*request));
  }

  std::vector<int> Holders() const {
    std::vector<int> out;
    for (const auto& [number, node] : nodes_) {
      // A frozen one counts: it could go on in this moment, and asks its clock then.
      if (node.alive && node.election->MayAnswer(Boot(node))) out.push_back(number);
    }
    return out;
  }

  void Pass(int64_t ms) {
    for (const int64_t end = now_ + ms; now_ < end; ++now_) {
      for (auto& packet : std::exchange(packets_, {})) {
        if (packet.at > now_) {
          packets_.push_back(std::move(packet));
        } else {
          Deliver(std::move(packet));
        }
      }
      for (auto& [number, node] : nodes_) {
        const bool turns = (now_ + number) % 20 == 0;
        if (turns && node.alive && !node.frozen) Run(number, node);
      }
      const size_t holders = Holders().size();
      if (holders > 1) ++several_;
      if (holders == 0) ++nobody_;
    }
  }

  std::mt19937 random_{1};
  Server server_;
  Faults faults_;
  std::map<int, Node> nodes_;
  std::vector<Packet> packets_;
  int64_t now_ = 1000;
  int64_t requests_ = 0;
  int lives_ = 0;
  int64_t several_ = 0;
  int64_t nobody_ = 0;
};

TEST_F(LeaseWorld, OneHoldsItAndTheLeaseSaysSo) {
  for (int node = 1; node <= 3; ++node) Add(node);
  Pass(10'000);
  ASSERT_EQ(Holders().size(), 1u);
  const int holder = Holders().front();
  nobody_ = 0;
  Pass(60'000);
  EXPECT_EQ(Holders(), std::vector<int>{holder});
  EXPECT_EQ(nobody_, 0) << "it is renewed in time";
  EXPECT_EQ(several_, 0);
  EXPECT_TRUE(server_.lease()->holder.starts_with(StrCat("node-", holder, "-")));
  EXPECT_EQ(server_.lease()->transitions, 1);
}

TEST_F(LeaseWorld, AKilledHolderIsReplacedInTime) {
  for (int node = 1; node <= 3; ++node) Add(node);
  Pass(10'000);
  const int holder = Holders().front();
  nodes_[holder].alive = false;
  nobody_ = 0;
  Pass(10'000);
  ASSERT_EQ(Holders().size(), 1u);
  EXPECT_NE(Holders().front(), holder);
  EXPECT_LE(nobody_, 4600);
  EXPECT_EQ(server_.lease()->transitions, 2);
}

TEST_F(LeaseWorld, WhoIsCutOffFallsSilentBeforeAnotherOneAnswers) {
  for (int node = 1; node <= 3; ++node) Add(node);
  Pass(10'000);
  const int holder = Holders().front();
  nodes_[holder].cut_off = true;
  Pass(2600);
  EXPECT_EQ(Holders(), std::vector<int>{}) << "2 s after its last renewal";
  Pass(3000);
  ASSERT_EQ(Holders().size(), 1u);
  EXPECT_NE(Holders().front(), holder);
  nodes_[holder].cut_off = false;
  Pass(10'000);
  EXPECT_NE(Holders().front(), holder) << "nobody is preferred";
  EXPECT_EQ(several_, 0);
}

TEST_F(LeaseWorld, AFrozenHolderHasNoRightWhenItGoesOn) {
  for (int node = 1; node <= 2; ++node) Add(node);
  Pass(10'000);
  const int holder = Holders().front();
  nodes_[holder].frozen = true;
  Pass(10'000);
  EXPECT_EQ(Holders(), std::vector<int>{3 - holder});
  nodes_[holder].frozen = false;
  Pass(10'000);
  EXPECT_EQ(Holders(), std::vector<int>{3 - holder});
  EXPECT_EQ(several_, 0);
}

TEST_F(LeaseWorld, WithoutAServerNobodyAnswers) {
  for (int node = 1; node <= 2; ++node) Add(node);
  Pass(10'000);
  for (auto& [number, node] : nodes_) node.cut_off = true;
  Pass(3000);
  EXPECT_EQ(Holders(), std::vector<int>{});
  for (auto& [number, node] : nodes_) node.cut_off = false;
  Pass(6000);
  EXPECT_EQ(Holders().size(), 1u);
  EXPECT_EQ(several_, 0);
}

TEST_F(LeaseWorld, WhoCannotServeGivesTheLeaseBack) {
  for (int node = 1; node <= 2; ++node) Add(node);
  Pass(10'000);
  const int holder = Holders().front();
  nodes_[holder].wanted = false;
  Pass(30);
  EXPECT_FALSE(nodes_[holder].election->MayAnswer(Boot(nodes_[holder])));
  Pass(1500);
  EXPECT_EQ(Holders(), std::vector<int>{3 - holder}) << "without waiting";
  EXPECT_EQ(several_, 0);
}

TEST_F(LeaseWorld, ADeletedLeaseIsNotTakenUnderItsHolder) {
  for (int node = 1; node <= 3; ++node) Add(node);
  for (int round = 0; round < 20; ++round) {
    Pass(10'000 + 37 * round);
    ASSERT_EQ(Holders().size(), 1u);
    server_.Delete();
  }
  EXPECT_EQ(several_, 0);
}

TEST_F(LeaseWorld, WhateverGoesWrongAtMostOneMayAnswer) {
  int64_t answered = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    random_.seed(seed);
    nodes_.clear();
    packets_.clear();
    server_ = {};
    for (int node = 1; node <= 4; ++node) Add(node);
    faults_ = {static_cast<int>(random_() % 400) + 1, static_cast<int>(random_() % 30),
               static_cast<int>(random_() % 20)};
    for (int step = 0; step < 25; ++step) {
      const int64_t before = nobody_;
      const int64_t time = static_cast<int64_t>(random_() % 5000);
      Pass(time);
      answered += time - (nobody_ - before);
      const int victim = static_cast<int>(random_() % 4) + 1;
      Node& node = nodes_[victim];
      switch (random_() % 5) {
        case 0:
          node.frozen = !node.frozen;
          break;
        case 1:
          node.cut_off = !node.cut_off;
          break;
        case 2:
          node.wanted = !node.wanted;
          break;
        case 3:
          Add(victim);  // died and started again
          break;
        default:
          break;
      }
    }
    ASSERT_EQ(several_, 0) << "seed " << seed;
    faults_ = {};
    for (auto& [number, node] : nodes_) {
      node.frozen = node.cut_off = false;
      node.wanted = true;
    }
    Pass(20'000);  // what was late is through
    EXPECT_EQ(Holders().size(), 1u) << "seed " << seed;
  }
  EXPECT_GT(answered, 600'000) << "the faults left too little to judge by";
}

TEST(LeaseNameTest, IsADnsNameForEveryAddress) {
  EXPECT_EQ(LeaseName(*IpAddress::Parse("198.51.100.7")), "holdfast-address-198.51.100.7");
  EXPECT_EQ(LeaseName(*IpAddress::Parse("2001:db8::")),
            "holdfast-address-2001-0db8-0000-0000-0000-0000-0000-0000");
}

}  // namespace
}  // namespace holdfast::netproxy::announce
