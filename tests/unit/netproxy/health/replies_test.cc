// SPDX-License-Identifier: Apache-2.0
#include "netproxy/health/replies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::netproxy {
namespace {

using ::testing::Contains;
using ::testing::Pair;

TEST(ServiceHealthReplyTest, TellsEndpointsHereAndTheProxysHealth) {
  const HttpReply two = ServiceHealthReply({"default", "web"}, 2, true);
  EXPECT_EQ(two.status, 200);
  EXPECT_THAT(two.headers, Contains(Pair("X-Load-Balancing-Endpoint-Weight", "2")));
  EXPECT_THAT(two.headers, Contains(Pair("Content-Type", "application/json")));
  EXPECT_EQ(two.body,
            "{\"service\":{\"namespace\":\"default\",\"name\":\"web\"},\"localEndpoints\":2,"
            "\"serviceProxyHealthy\":true}\n");
  EXPECT_EQ(ServiceHealthReply({"default", "web"}, 0, true).status, 503);
  EXPECT_EQ(ServiceHealthReply({"default", "web"}, 2, false).status, 503);
}

TEST(ProxyReplyTest, HealthzMindsTheNodeLivezDoesNot) {
  ProxyState state;
  state.last_updated = {std::chrono::seconds(1'700'000'000)};
  state.now = {std::chrono::seconds(1'700'000'060) + std::chrono::milliseconds(70)};
  EXPECT_EQ(HealthzReply(state).status, 200);
  EXPECT_EQ(HealthzReply(state).body,
            "{\"lastUpdated\":\"2023-11-14T22:14:20.07Z\","
            "\"currentTime\":\"2023-11-14T22:14:20.07Z\",\"nodeEligible\":true,\"healthy\":true,"
            "\"status\":{\"IPv4\":{\"lastUpdated\":\"2023-11-14T22:13:20Z\",\"healthy\":true}}}");
  state.node_eligible = false;
  EXPECT_EQ(HealthzReply(state).status, 503);
  EXPECT_EQ(LivezReply(state).status, 200);
  state.healthy = false;
  state.ipv6 = true;
  EXPECT_EQ(LivezReply(state).status, 503);
  EXPECT_EQ(LivezReply(state).body,
            "{\"lastUpdated\":\"2023-11-14T22:13:20Z\","
            "\"currentTime\":\"2023-11-14T22:14:20.07Z\",\"healthy\":false,"
            "\"status\":{\"IPv4\":{\"lastUpdated\":\"2023-11-14T22:13:20Z\",\"healthy\":false},"
            "\"IPv6\":{\"lastUpdated\":\"2023-11-14T22:13:20Z\",\"healthy\":false}}}");
}

TEST(ProxyReplyTest, AProxyThatHasNotWrittenYetIsHealthyWithoutStatus) {
  ProxyState state;
  state.now = {std::chrono::seconds(1'700'000'060)};
  EXPECT_EQ(HealthzReply(state).status, 200);
  EXPECT_EQ(LivezReply(state).body,
            "{\"lastUpdated\":\"2023-11-14T22:14:20Z\",\"currentTime\":\"2023-11-14T22:14:20Z\","
            "\"healthy\":true}");
}

}  // namespace
}  // namespace holdfast::netproxy
