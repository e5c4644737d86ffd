// SPDX-License-Identifier: Apache-2.0
// The table of expectations through IPVS, and what it does not hold: spread, affinity, endpoints
// that flip.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/system/netproxy/ipvs/ipvs_world.h"

namespace holdfast::netproxy {
namespace {

using IpvsPackets = IpvsFamilies;
INSTANTIATE_TEST_SUITE_P(Families, IpvsPackets, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "IPv6" : "IPv4"; });

TEST_P(IpvsPackets, ClusterIpIsServedDumpedAndRemoved) {
  Apply(true, {Web({"a", "b"})});
  EXPECT_EQ(Reached("client", Vip(), 80), (Names{"a", "b"}));
  EXPECT_EQ(Observe().size(), 1u);
  const std::string dump = back_end_->Dump().value_or("");
  EXPECT_NE(dump.find(v6() ? "-A -t [fd00:96::10]:80 -s rr -b flag-3\n"
                           : "-A -t 10.96.0.10:80 -s rr -b flag-3\n"),
            std::string::npos)
      << dump;
  ASSERT_OK(back_end_->Remove());
  EXPECT_TRUE(Observe().empty());
  EXPECT_EQ(Command("nft list ruleset"), "");
  EXPECT_EQ(Command("ip -o link").find("holdfast-ipvs"), std::string::npos);
  ASSERT_OK(back_end_->Remove());
}

TEST_P(IpvsPackets, EveryExpectationHolds) {
  Apply(true, AllRows(v6()));
  RunExpectations("ipvs", v6());
}

}  // namespace
}  // namespace holdfast::netproxy
