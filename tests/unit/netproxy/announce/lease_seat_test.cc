// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/lease_seat.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::announce {
namespace {

using Kind = LeaseRequest::Kind;
using std::chrono::milliseconds;

constexpr MacAddress kOurMac = {2, 0, 0, 0, 0, 1};
constexpr MacAddress kOther = {2, 0, 0, 0, 0, 2};

class LeaseSeatTest : public testing::Test {
 protected:
  // Time passes: the seat's thread ticks, the Lease's requests are answered at once.
  void Pass(milliseconds time, bool ticking = true) {
    for (const BootTime end = now_ + time; now_ < end; now_ = now_ + milliseconds(100)) {
      if (ticking && now_ >= tick_at_) {
        tick_at_ = now_ + kTickEvery;
        Note(seat_->Tick(now_));
      }
      Serve();
      if (seat_->MayAnswer(now_)) ++answering_;
    }
  }

  void Serve() {
    const auto request = lease_->Next(now_, {});
    if (!request) return;
    if (!server_answers_) {
      news_of_server_ += lease_->Done(Unavailable("put: connection refused"), now_);
    } else if (request->kind == Kind::kGet) {
      news_of_server_ += lease_->Done(
          record_ ? Result<LeaseRecord>(*record_) : Result<LeaseRecord>(NotFound("lease")), now_);
    } else {
      record_ = request->record;
      record_->version = StrCat(++version_);
      news_of_server_ += lease_->Done(*record_, now_);
    }
  }

  void Note(const Deeds& deeds) {
    announced_ += deeds.announce ? 1 : 0;
    asked_ += deeds.ask ? 1 : 0;
    if (!deeds.news.empty()) news_ = deeds.news;
  }

  bool Holds() const { return seat_->MayAnswer(now_); }
  std::string HolderAtTheServer() const { return record_ ? record_->holder : "(none)"; }

  BootTime now_{milliseconds(1'000'000)};
  BootTime tick_at_;
  std::shared_ptr<AddressLease> lease_ = std::make_shared<AddressLease>("node-1/a");
  std::unique_ptr<LeaseSeat> seat_ = std::make_unique<LeaseSeat>(lease_, kOurMac, now_);
  std::optional<LeaseRecord> record_;
  uint64_t version_ = 1;
  bool server_answers_ = true;
  std::string news_;
  std::string news_of_server_;
  int announced_ = 0;
  int asked_ = 0;
  int answering_ = 0;
};

TEST_F(LeaseSeatTest, AnswersWhileItHasTheLease) {
  Pass(milliseconds(2900));
  EXPECT_EQ(answering_, 0);
  EXPECT_EQ(asked_, 3) << "whether somebody has it";
  EXPECT_EQ(announced_, 0);
  Pass(milliseconds(1500));
  EXPECT_TRUE(Holds());
  EXPECT_EQ(HolderAtTheServer(), "node-1/a");
  EXPECT_EQ(announced_, 1);
  EXPECT_EQ(news_, "this node has its Lease and answers for it now");
  EXPECT_EQ(seat_->Describe(now_), "held by this node, which has its Lease");
  Pass(milliseconds(3000));
  EXPECT_EQ(announced_, 3);
  Pass(milliseconds(30'000));
  EXPECT_EQ(announced_, 6);
  EXPECT_EQ(asked_, 4) << "nobody is asked meanwhile";
}

TEST_F(LeaseSeatTest, IsSilentWhenTheLeaseCannotBeRenewed) {
  Pass(milliseconds(10'000));
  ASSERT_TRUE(Holds());
  server_answers_ = false;
  answering_ = 0;
  Pass(milliseconds(2600));
  EXPECT_FALSE(Holds());
  EXPECT_LE(answering_, 20) << "tenths of a second";
  EXPECT_EQ(news_of_server_, "put: connection refused, trying again");
  EXPECT_EQ(news_,
            "this node answers for it no longer: its Lease was last seen with node-1/a; put: "
            "connection refused");
  server_answers_ = true;
  Pass(milliseconds(1000));
  EXPECT_TRUE(Holds());
  EXPECT_TRUE(news_of_server_.ends_with("the API server answers again")) << news_of_server_;
}

TEST_F(LeaseSeatTest, WhileAnotherNodeRenewsNobodyAnswersHere) {
  record_ = LeaseRecord{};
  record_->holder = "node-2/b";
  for (int i = 0; i < 30; ++i) {
    record_->version = StrCat(++version_);
    Pass(milliseconds(500));
  }
  EXPECT_EQ(answering_, 0);
  EXPECT_EQ(seat_->Describe(now_), "its Lease was last seen with node-2/b");
  Pass(milliseconds(5000));
  EXPECT_TRUE(Holds()) << "it renews no more";
}

TEST_F(LeaseSeatTest, AThreadThatStandsStillGivesTheLeaseUp) {
  Pass(milliseconds(10'000));
  ASSERT_TRUE(Holds());
  const BootTime began = now_;
  Pass(milliseconds(2000), false);
  EXPECT_FALSE(Holds());
  EXPECT_EQ(HolderAtTheServer(), "node-1/a") << "only a while after it fell silent";
  Pass(milliseconds(1200), false);
  EXPECT_EQ(HolderAtTheServer(), "") << (now_ - began).count();
}

TEST_F(LeaseSeatTest, WithoutTheSegmentTheLeaseIsForOthers) {
  Pass(milliseconds(10'000));
  ASSERT_TRUE(Holds());
  EXPECT_NE(seat_->LoseSight(now_).news, "");
  EXPECT_FALSE(Holds());
  Serve();
  EXPECT_EQ(HolderAtTheServer(), "");
  EXPECT_EQ(seat_->LoseSight(now_).news, "") << "told once";
  // Back again it listens first.
  answering_ = 0;
  Pass(milliseconds(2900));
  EXPECT_EQ(answering_, 0);
  Pass(milliseconds(1000));
  EXPECT_TRUE(Holds());
}

TEST_F(LeaseSeatTest, AMachineThatHasTheAddressKeepsIt) {
  Pass(milliseconds(10'000));
  ASSERT_TRUE(Holds());
  const Claim claim{*IpAddress::Parse("198.51.100.7"), kOther, std::nullopt};
  EXPECT_EQ(seat_->Hear(claim, now_).news,
            "02:00:00:00:00:02 has it and is no agent of ours; this node does no longer answer for "
            "it");
  EXPECT_FALSE(Holds());
  Serve();
  EXPECT_EQ(HolderAtTheServer(), "");
  answering_ = 0;
  for (int i = 0; i < 10; ++i) {  // it answers whenever it is asked
    Pass(milliseconds(1000));
    EXPECT_EQ(seat_->Hear(claim, now_).news, "") << "told once";
  }
  EXPECT_EQ(answering_, 0);
  EXPECT_EQ(seat_->Describe(now_), "held by 02:00:00:00:00:02, which is no agent of ours");
  Pass(milliseconds(4000));
  EXPECT_TRUE(Holds()) << "it is gone";
}

TEST_F(LeaseSeatTest, WhatOtherAgentsSayDecidesNothing) {
  Pass(milliseconds(10'000));
  ASSERT_TRUE(Holds());
  EXPECT_EQ(seat_->Hear({*IpAddress::Parse("198.51.100.7"), kOther, 254}, now_).news, "");
  EXPECT_TRUE(Holds());
}

TEST_F(LeaseSeatTest, OneLeaseIsForAllSegments) {
  Pass(milliseconds(10'000));
  auto second = std::make_unique<LeaseSeat>(lease_, MacAddress{2, 0, 0, 0, 0, 9}, now_);
  second->Tick(now_);
  EXPECT_NE(seat_->LoseSight(now_).news, "");
  Serve();
  EXPECT_EQ(HolderAtTheServer(), "node-1/a") << "the other segment has it";
  second.reset();
  Serve();
  EXPECT_EQ(HolderAtTheServer(), "");
  EXPECT_TRUE(lease_->IsIdle());
}

}  // namespace
}  // namespace holdfast::netproxy::announce
