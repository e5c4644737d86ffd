// SPDX-License-Identifier: Apache-2.0
#include "netproxy/table/select_endpoints.h"

#include <gtest/gtest.h>

#include "tests/unit/netproxy/table/service_builders.h"

namespace holdfast::netproxy {
namespace {

using enum EndpointVerdict;
using model::kEndpointNodeHinted;
using model::kEndpointNodeHints;
using model::kEndpointServing;
using model::kEndpointTerminating;
using model::kEndpointZoneHinted;
using model::kEndpointZoneHints;

constexpr uint8_t kThisNode = kEndpointNodeHints | kEndpointNodeHinted;
constexpr uint8_t kThisZone = kEndpointZoneHints | kEndpointZoneHinted;

struct Expected {
  uint8_t flags;
  EndpointVerdict cluster;
  EndpointVerdict local;
};

struct Case {
  const char* what;
  std::vector<Expected> endpoints;
};

// Feature map 4.2.12 and 4.2.13: each row one situation, each endpoint with both verdicts.
const Case kCases[] = {
    {"all ready ones are used, those here by the local list too",
     {{kReadyHere, kUsed, kUsed}, {kReady, kUsed, kNotHere}}},
    {"not ready is not used", {{kReady, kUsed, kNotHere}, {0, kNotReady, kNotHere}}},
    {"a terminating one makes room for a ready one",
     {{kReady, kUsed, kNotHere}, {kDraining, kTerminating, kNotHere}}},
    {"without a ready one those that still serve do",
     {{kDraining, kUsedWhileTerminating, kNotHere},
      {kDrainingHere, kUsedWhileTerminating, kUsedWhileTerminating},
      {kEndpointTerminating, kNotReady, kNotHere}}},
    {"the lists are decided apart: nothing ready here, but elsewhere",
     {{kReady, kUsed, kNotHere}, {kDrainingHere, kTerminating, kUsedWhileTerminating}}},
    {"serving without terminating is no fall-back", {{kEndpointServing, kNotReady, kNotHere}}},
    {"node hints on all ready ones, one for this node",
     {{kReadyHere | kThisNode, kUsed, kUsed},
      {kReady | kEndpointNodeHints, kHintsOtherNode, kNotHere}}},
    {"node hints on all, none for this node: all",
     {{kReady | kEndpointNodeHints, kUsed, kNotHere},
      {kReady | kEndpointNodeHints, kUsed, kNotHere}}},
    {"one ready one without node hints: all",
     {{kReadyHere | kThisNode, kUsed, kUsed}, {kReady, kUsed, kNotHere}}},
    {"a terminating one without hints does not matter",
     {{kReadyHere | kThisNode, kUsed, kUsed},
      {kReady | kEndpointNodeHints, kHintsOtherNode, kNotHere},
      {kDraining, kTerminating, kNotHere}}},
    {"zone hints",
     {{kReady | kThisZone, kUsed, kNotHere},
      {kReadyHere | kEndpointZoneHints, kHintsOtherZone, kUsed}}},
    {"zone hints on all, none for this zone: all",
     {{kReady | kEndpointZoneHints, kUsed, kNotHere},
      {kReady | kEndpointZoneHints, kUsed, kNotHere}}},
    {"node hints without this node fall back to zone hints",
     {{kReady | kEndpointNodeHints | kThisZone, kUsed, kNotHere},
      {kReady | kEndpointNodeHints | kEndpointZoneHints, kHintsOtherZone, kNotHere}}},
    {"hints do not count in the fall-back to terminating ones",
     {{kDraining | kEndpointNodeHints, kUsedWhileTerminating, kNotHere},
      {kDrainingHere | kThisNode, kUsedWhileTerminating, kUsedWhileTerminating}}},
    {"hints do not count in the local list",
     {{kReadyHere | kEndpointZoneHints, kHintsOtherZone, kUsed},
      {kReady | kThisZone, kUsed, kNotHere}}},
};

TEST(JudgeEndpointsTest, DecidesBothListsForEachSituation) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    model::EndpointSlice slice = Slice("a", {});
    for (size_t i = 0; i < c.endpoints.size(); ++i) {
      slice.endpoints.push_back(At("172.16.0." + std::to_string(i + 1), c.endpoints[i].flags));
    }
    const model::EndpointSlice* const slices[] = {&slice};
    const auto judged = JudgeEndpoints(slices, {"", model::L4Protocol::kTcp, 80, 0}, false);
    ASSERT_EQ(judged.size(), c.endpoints.size());
    for (size_t i = 0; i < judged.size(); ++i) {
      EXPECT_EQ(judged[i].cluster, c.endpoints[i].cluster) << i << Describe(judged[i].cluster);
      EXPECT_EQ(judged[i].local, c.endpoints[i].local) << i << Describe(judged[i].local);
    }
  }
}

TEST(JudgeEndpointsTest, MergesSlicesByPortNameAndProtocol) {
  model::EndpointSlice a = Slice("a", {At("172.16.0.1")});
  a.ports = {{"http", model::L4Protocol::kTcp, 8080}, {"dns", model::L4Protocol::kUdp, 53}};
  model::EndpointSlice b = Slice("b", {At("172.16.0.2")});  // another version of the pod
  b.ports = {{"http", model::L4Protocol::kTcp, 9090}};
  const model::EndpointSlice* const slices[] = {&a, &b};
  const auto http = JudgeEndpoints(slices, {"http", model::L4Protocol::kTcp, 80, 0}, false);
  ASSERT_EQ(http.size(), 2u);
  EXPECT_EQ(http[0].target, (model::Endpoint{Ip("172.16.0.1"), 8080}));
  EXPECT_EQ(http[1].target, (model::Endpoint{Ip("172.16.0.2"), 9090}));
  EXPECT_EQ(JudgeEndpoints(slices, {"dns", model::L4Protocol::kUdp, 53, 0}, false).size(), 1u);
  EXPECT_TRUE(JudgeEndpoints(slices, {"dns", model::L4Protocol::kTcp, 53, 0}, false).empty());
}

TEST(JudgeEndpointsTest, CountsAnEndpointOfTwoSlicesOnceAndPrefersHereThenReady) {
  const model::EndpointSlice a = Slice("a", {At("172.16.0.1", kReady), At("172.16.0.2", 0)});
  const model::EndpointSlice b =
      Slice("b", {At("172.16.0.1", kReadyHere), At("172.16.0.2", kReady)});
  const model::EndpointSlice* const slices[] = {&a, &b};
  const auto judged = JudgeEndpoints(slices, {"", model::L4Protocol::kTcp, 80, 0}, false);
  ASSERT_EQ(judged.size(), 2u);
  EXPECT_EQ(judged[0].local, kUsed);
  EXPECT_EQ(judged[1].cluster, kUsed);
}

TEST(JudgeEndpointsTest, LeavesOutWhatNoEndpointMayBe) {
  model::EndpointSlice slice = Slice("a", {});
  const char* const bad[] = {"0.0.0.0", "127.0.0.1", "169.254.169.254", "224.0.0.1",
                             "255.255.255.255"};
  for (const char* ip : bad) slice.endpoints.push_back(At(ip, kReadyHere));
  const model::EndpointSlice* const slices[] = {&slice};
  for (const JudgedEndpoint& e :
       JudgeEndpoints(slices, {"", model::L4Protocol::kTcp, 80, 0}, false)) {
    EXPECT_EQ(e.cluster, kForbiddenAddress) << e.target.ip.ToString();
    EXPECT_EQ(e.local, kForbiddenAddress) << e.target.ip.ToString();
  }
  model::EndpointSlice six = Slice("b", {}, "web", true);
  for (const char* ip : {"::", "::1", "fe80::1", "ff02::1", "::ffff:10.0.0.1"}) {
    six.endpoints.push_back(At(ip, kReadyHere));
  }
  six.endpoints.push_back(At("172.16.0.9", kReadyHere));
  const model::EndpointSlice* const sixes[] = {&six};
  const auto judged = JudgeEndpoints(sixes, {"", model::L4Protocol::kTcp, 80, 0}, true);
  ASSERT_EQ(judged.size(), 6u);
  EXPECT_EQ(judged[0].cluster, kWrongFamily);  // IPv4 sorts first
  for (size_t i = 1; i < judged.size(); ++i) EXPECT_EQ(judged[i].cluster, kForbiddenAddress) << i;
}

TEST(JudgeEndpointsTest, ARefusedEndpointIsNoReasonToWait) {
  const model::EndpointSlice slice =
      Slice("a", {At("127.0.0.1", kReadyHere), At("172.16.0.1", kDrainingHere)});
  const model::EndpointSlice* const slices[] = {&slice};
  const auto judged = JudgeEndpoints(slices, {"", model::L4Protocol::kTcp, 80, 0}, false);
  EXPECT_EQ(judged[1].cluster, kUsedWhileTerminating);
  EXPECT_EQ(judged[1].local, kUsedWhileTerminating);
}

}  // namespace
}  // namespace holdfast::netproxy
