// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/wiring.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "holdfast/sys/sysctl.h"
#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::netproxy {

std::string NetFixture::InterfaceOf(const Pod& pod) const {
  return InterfaceName(instance_.interface_prefix, pod.request.uid);
}

namespace {

class BothFamilies : public NetFixture, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Families, BothFamilies, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "IPv6" : "IPv4"; });

TEST_P(BothFamilies, NodeReachesPodAndIsSeenByItsGatewayAddress) {
  Pod pod = MakePod("web");
  ASSERT_EQ(pod.ips, (std::vector<std::string>{"10.88.0.2", "fd00:88::2"}));
  UniqueFd server = Socket(pod.netns.get(), SOCK_STREAM, AnyOf(pod.ip(GetParam())), 80, true);
  const Outcome got = Connect(node_.get(), pod.ip(GetParam()), 80, server.get());
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.source, GetParam() ? "fd00:88::1" : "10.88.0.1");
}

TEST_P(BothFamilies, PodReachesNodeWithItsOwnAddress) {
  Pod pod = MakePod("web");
  const std::string node_ip = GetParam() ? "2001:db8::2" : "192.0.2.2";
  UniqueFd server = Socket(node_.get(), SOCK_STREAM, node_ip, 9000, true);
  const Outcome got = Connect(pod.netns.get(), node_ip, 9000, server.get());
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.source, pod.ip(GetParam()));
}

TEST_P(BothFamilies, PodsReachEachOtherWithTheirOwnAddresses) {
  Pod a = MakePod("a");
  Pod b = MakePod("b");
  UniqueFd server = Socket(b.netns.get(), SOCK_STREAM, AnyOf(b.ip(GetParam())), 80, true);
  const Outcome got = Connect(a.netns.get(), b.ip(GetParam()), 80, server.get());
  EXPECT_EQ(got.error, "");
  EXPECT_EQ(got.source, a.ip(GetParam()));
}

TEST_P(BothFamilies, AddressOfNoPodIsUnreachableAndDoesNotLeaveTheNode) {
  Pod pod = MakePod("web");
  const Outcome got = Connect(pod.netns.get(), GetParam() ? "fd00:88::77" : "10.88.0.77", 80, -1);
  EXPECT_EQ(got.error, GetParam() ? "ENETUNREACH" : "EHOSTUNREACH");
}

}  // namespace
}  // namespace holdfast::netproxy
