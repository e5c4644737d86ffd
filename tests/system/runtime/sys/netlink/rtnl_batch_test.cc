// SPDX-License-Identifier: Apache-2.0
// Changes in one call against the kernel, in a network namespace that is this program's own.
#include "holdfast/sys/rtnl_batch.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "holdfast/sys/netns.h"
#include "holdfast/sys/sysctl.h"
#include "tests/support/eventually.h"
#include "tests/support/ip.h"

namespace holdfast::sys {
namespace {

constexpr int kNoLink = 4711;

using test_support::Ip;

Route RouteTo(const char* network, int link) {
  Route route;
  route.destination = *Cidr::Parse(network);
  route.link = link;
  route.protocol = 72;
  return route;
}

class RtnlBatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    auto far = NewNetworkNamespace();
    ASSERT_TRUE(far) << far.error().message();
    far_ = std::move(*far);
    // Two more links over there, or both ends would have the same number.
    auto there = Rtnl::OpenIn(far_.get());
    ASSERT_TRUE(there) << there.error().message();
    ASSERT_TRUE(there->AddVeth({.name = "x0",
                                .mac = {2, 0, 0, 0, 0, 3},
                                .mtu = 1400,
                                .peer_netns = -1,
                                .peer_name = "x1",
                                .peer_mac = {2, 0, 0, 0, 0, 4}}));
    auto rtnl = Rtnl::Open();
    ASSERT_TRUE(rtnl) << rtnl.error().message();
    rtnl_.emplace(std::move(*rtnl));
    auto ends = rtnl_->AddVeth({.name = "v0",
                                .mac = {2, 0, 0, 0, 0, 1},
                                .mtu = 1400,
                                .peer_netns = far_.get(),
                                .peer_name = "eth0",
                                .peer_mac = {2, 0, 0, 0, 0, 2}});
    ASSERT_TRUE(ends) << ends.error().message();
    ends_ = *ends;
  }

  NsFd far_;
  std::optional<Rtnl> rtnl_;
  VethEnds ends_;
};

TEST_F(RtnlBatchTest, TheMakingOfAVethTellsBothEnds) {
  EXPECT_EQ(ends_.index, rtnl_->GetLink("v0")->index);
  auto there = Rtnl::OpenIn(far_.get());
  EXPECT_EQ(ends_.peer_index, there->GetLink("eth0")->index);
  EXPECT_NE(ends_.index, ends_.peer_index) << "the test itself";
}

TEST_F(RtnlBatchTest, AFailureIsThatOfItsChangeAndStopsNoOther) {
  RtnlBatch batch;
  ASSERT_TRUE(batch.SetLinkUp(kNoLink));
  ASSERT_TRUE(batch.SetLinkUp(ends_.index));
  ASSERT_TRUE(batch.AddRoute(RouteTo("10.1.0.0/16", ends_.index)));
  ASSERT_TRUE(batch.AddRoute(RouteTo("10.1.0.0/16", ends_.index)));
  ASSERT_TRUE(batch.EnsureAddress({Ip("192.0.2.1"), 32, ends_.index}));
  const std::vector<Result<void>> done = rtnl_->Do(batch);
  ASSERT_EQ(done.size(), batch.size());
  ASSERT_FALSE(done[0]);
  EXPECT_EQ(done[0].error().sys_errno(), ENODEV);
  EXPECT_NE(done[0].error().message().find("set link 4711 up"), std::string::npos)
      << done[0].error().message();
  EXPECT_TRUE(done[1]);
  EXPECT_TRUE(done[2]);
  ASSERT_FALSE(done[3]);
  EXPECT_EQ(done[3].error().code(), Code::kAlreadyExists);
  EXPECT_TRUE(done[4]);
  // A verb of its own on the same socket finds no answer of the batch.
  EXPECT_TRUE(rtnl_->GetLink("v0")->up);
  const auto addresses = rtnl_->ListAddresses();
  ASSERT_TRUE(addresses) << addresses.error().message();
  EXPECT_EQ(addresses->size(), 1u);
}

TEST_F(RtnlBatchTest, AFailureOfTheLastChangeIsTold) {
  RtnlBatch batch;
  ASSERT_TRUE(batch.SetLinkUp(ends_.index));
  ASSERT_TRUE(batch.SetLinkUp(kNoLink));
  const std::vector<Result<void>> done = rtnl_->Do(batch);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_TRUE(done[0]);
  EXPECT_FALSE(done[1]);
  EXPECT_TRUE(rtnl_->GetLink("v0"));
}

TEST_F(RtnlBatchTest, ALinkIsFoundByANameThatWasAdded) {
  RtnlBatch batch;
  ASSERT_TRUE(batch.AddName(ends_.index, "another"));
  LinkParameters alias;
  alias.alias = "pod a/b";
  ASSERT_TRUE(batch.SetParameters(ends_.index, alias));
  ASSERT_TRUE(batch.AddName(ends_.index, "another"));
  const std::vector<Result<void>> done = rtnl_->Do(batch);
  EXPECT_TRUE(done[0]) << done[0].error().message();
  ASSERT_FALSE(done[2]);
  EXPECT_EQ(done[2].error().code(), Code::kAlreadyExists);
  const auto link = rtnl_->GetLink("another");
  ASSERT_TRUE(link) << link.error().message();
  EXPECT_EQ(link->index, ends_.index);
  EXPECT_EQ(link->name, "v0");
  EXPECT_EQ(link->alias, "pod a/b");
  const auto taken = rtnl_->AddVeth({.name = "another",
                                     .mac = {2, 0, 0, 0, 0, 5},
                                     .mtu = 1400,
                                     .peer_netns = -1,
                                     .peer_name = "other",
                                     .peer_mac = {2, 0, 0, 0, 0, 6}});
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code(), Code::kAlreadyExists);
}

TEST_F(RtnlBatchTest, ALinkIsLookedForByNameAndByNumber) {
  RtnlBatch batch;
  ASSERT_TRUE(batch.AddName(ends_.index, "another"));
  ASSERT_TRUE(rtnl_->Do(batch)[0]);
  EXPECT_TRUE(rtnl_->HasLink("v0").value());
  EXPECT_TRUE(rtnl_->HasLink("another").value());
  EXPECT_FALSE(rtnl_->HasLink("v1").value());
  EXPECT_TRUE(rtnl_->HasLink(ends_.index).value());
  EXPECT_FALSE(rtnl_->HasLink(kNoLink).value());
  ASSERT_TRUE(rtnl_->DeleteLink(ends_.index));
  EXPECT_FALSE(rtnl_->HasLink("another").value());
  EXPECT_FALSE(rtnl_->HasLink(ends_.index).value());
}

TEST_F(RtnlBatchTest, ALinkRunsOnceBothEndsAreUp) {
  ASSERT_TRUE(rtnl_->SetLinkUp(ends_.index));
  EXPECT_FALSE(rtnl_->IsRunning(ends_.index).value());
  auto there = Rtnl::OpenIn(far_.get());
  ASSERT_TRUE(there->SetLinkUp(ends_.peer_index));
  EXPECT_TRUE(test_support::Eventually([&] { return rtnl_->IsRunning(ends_.index).value(); },
                                       std::chrono::seconds(5)));
  EXPECT_TRUE(rtnl_->GetLink("v0")->running);
  EXPECT_FALSE(rtnl_->IsRunning(kNoLink));
}

TEST_F(RtnlBatchTest, NothingToDoIsDone) { EXPECT_TRUE(rtnl_->Do(RtnlBatch()).empty()); }

TEST_F(RtnlBatchTest, ParametersAreSetAndTheOthersStay) {
  ASSERT_TRUE(WriteSysctl("net/ipv4/conf/v0/rp_filter", "0"));
  ASSERT_TRUE(WriteSysctl("net/ipv4/conf/v0/accept_redirects", "1"));
  RtnlBatch batch;
  LinkParameters wanted;
  wanted.rp_filter = 2;
  wanted.route_localnet = 1;
  wanted.ipv6_addr_gen_mode = 1;
  ASSERT_TRUE(batch.SetParameters(ends_.index, wanted));
  const std::vector<Result<void>> done = rtnl_->Do(batch);
  ASSERT_TRUE(done[0]) << done[0].error().message();
  EXPECT_EQ(ReadSysctl("net/ipv4/conf/v0/rp_filter").value(), "2");
  EXPECT_EQ(ReadSysctl("net/ipv4/conf/v0/route_localnet").value(), "1");
  EXPECT_EQ(ReadSysctl("net/ipv4/conf/v0/accept_redirects").value(), "1");
  EXPECT_EQ(ReadSysctl("net/ipv6/conf/v0/addr_gen_mode").value(), "1");
  EXPECT_EQ(ReadSysctl("net/ipv4/conf/lo/route_localnet").value(), "0");
  EXPECT_EQ(rtnl_->GetLink("v0")->alias, "");
  EXPECT_FALSE(rtnl_->GetLink("v0")->up);
}

}  // namespace
}  // namespace holdfast::sys
