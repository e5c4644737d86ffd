// SPDX-License-Identifier: Apache-2.0
// Ranges that a cluster gives and changes: who gets which address, who sees which, what is left.
#include <gtest/gtest.h>

#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::netproxy {
namespace {

class Ranges : public NetFixture {
 protected:
  void SetUp() override {
    NetFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    net_.reset();
    std::filesystem::remove_all(directory_ + "/network");
    Command("ip addr flush dev lo; ip route flush proto 72; ip -6 route flush proto 72");
    instance_.pod_cidrs.clear();
    Reopen();
  }

  static std::vector<Cidr> Of(const std::vector<std::string>& texts) {
    std::vector<Cidr> out;
    for (const std::string& text : texts) out.push_back(Cidr::Parse(text).value());
    return out;
  }
  // What the pod's address is to the outside.
  std::string SeenOutside(const Pod& pod) {
    const UniqueFd server = Socket(outside_.get(), SOCK_STREAM, "192.0.2.1", port_, true);
    const Outcome outcome = Connect(pod.netns.get(), "192.0.2.1", port_++, server.get());
    return outcome.ok() ? outcome.source : outcome.error;
  }
  static std::string Routes() { return Command("ip route show proto 72 type unreachable"); }

  uint16_t port_ = 7000;
};

TEST_F(Ranges, WithoutARangeAPodWaitsAndIsTold) {
  const auto refused = TryPod("web");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_NE(refused.error().message().find("the Node has no spec.podCIDRs yet"), std::string::npos)
      << refused.error().message();
  ASSERT_OK(net_->SetRanges(Of({"10.1.0.0/24"}), {}));
  EXPECT_EQ(MakePod("web").ips, std::vector<std::string>{"10.1.0.2"});
}

TEST_F(Ranges, PodsOfAFormerRangeGoOnUntilTheLastIsGone) {
  ASSERT_OK(net_->SetRanges(Of({"10.1.0.0/24"}), {}));
  Pod old = MakePod("old");
  ASSERT_OK(net_->SetRanges(Of({"10.2.0.0/24"}), {}));
  Pod fresh = MakePod("fresh");
  EXPECT_EQ(old.ips, std::vector<std::string>{"10.1.0.2"});
  EXPECT_EQ(fresh.ips, std::vector<std::string>{"10.2.0.2"});
  for (const bool restarted : {false, true}) {
    if (restarted) Reopen();
    EXPECT_EQ(net_->Setup(old.request).value(), old.ips);
    for (const Pod* pod : {&old, &fresh}) {
      EXPECT_EQ(SeenOutside(*pod), "192.0.2.2");
      const UniqueFd server = Socket(pod->netns.get(), SOCK_STREAM, pod->ips[0], port_, true);
      EXPECT_TRUE(Connect(node_.get(), pod->ips[0], port_++, server.get()).ok());
    }
    EXPECT_EQ(Routes(), "unreachable 10.1.0.0/24 \nunreachable 10.2.0.0/24 \n");
  }
  ASSERT_OK(net_->Teardown(old.request.uid));
  DropNamespace(old);
  ASSERT_OK(net_->Release());  // the address, and with it the range
  EXPECT_EQ(Routes(), "unreachable 10.2.0.0/24 \n");
  EXPECT_EQ(Command("nft list ruleset").find("10.1.0.0/24"), std::string::npos);
  EXPECT_EQ(Command("ip -o addr show dev lo").find("10.1.0.1"), std::string::npos);
  EXPECT_EQ(SeenOutside(fresh), "192.0.2.2");
}

TEST_F(Ranges, WithinTheClusterAPodKeepsItsAddress) {
  ASSERT_OK(net_->SetRanges(Of({"10.1.0.0/24"}), {}));
  Pod pod = MakePod("web");
  auto out = sys::Rtnl::OpenIn(outside_.get());
  ASSERT_OK(out);
  sys::Route back;
  back.destination = *Cidr::Parse("10.1.0.0/24");
  back.gateway = *IpAddress::Parse("192.0.2.2");
  back.link = out->GetLink("eth0")->index;
  ASSERT_OK(out->ReplaceRoute(back));
  EXPECT_EQ(SeenOutside(pod), "192.0.2.2");
  ASSERT_OK(net_->SetRanges({}, Of({"192.0.2.1/32"})));
  EXPECT_EQ(SeenOutside(pod), pod.ips[0]);
  Reopen();  // without an API server
  EXPECT_EQ(SeenOutside(pod), pod.ips[0]);
  ASSERT_OK(net_->SetRanges(Of({"10.1.0.0/24"}), std::nullopt));
  EXPECT_EQ(SeenOutside(pod), pod.ips[0]);
  ASSERT_OK(net_->SetRanges({}, std::vector<Cidr>()));
  EXPECT_EQ(SeenOutside(pod), "192.0.2.2");
}

TEST_F(Ranges, WhatCannotBeUsedChangesNothing) {
  ASSERT_OK(net_->SetRanges(Of({"10.1.0.0/24"}), {}));
  for (const auto& wrong : {Of({"10.2.0.0/24", "10.3.0.0/24"}), Of({"10.2.0.0/31"})}) {
    const auto refused = net_->SetRanges(wrong, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  }
  Reopen();
  EXPECT_EQ(MakePod("web").ips, std::vector<std::string>{"10.1.0.2"});
}

}  // namespace
}  // namespace holdfast::netproxy
