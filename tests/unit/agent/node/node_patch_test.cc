// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_patch.h"

#include <gtest/gtest.h>

#include "agent/node/node_builder.h"
#include "tests/unit/agent/node/facts.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;

const WallTime kBefore{seconds(1'000)};
const WallTime kAfter{seconds(2'000)};

class NodePatchTest : public testing::Test {
 protected:
  NodePatchTest() {
    server = BuildNode(facts, {}, {}, kBefore);
    server.mutable_metadata()->set_uid("u1");
  }

  // From the server's Node to what it ought to be.
  NodePatch Patch(WallTime now = kBefore) {
    corev1::Node ours;
    *ours.mutable_metadata() = BuildNodeMeta(facts);
    *ours.mutable_status() = BuildNodeStatus(facts, ready, server.status(), now);
    return PatchNode(server, ours, sent ? &*sent : nullptr);
  }

  NodeDescription facts = test::Facts();
  ReadyState ready;
  corev1::Node server;
  std::optional<corev1::NodeStatus> sent;
};

TEST_F(NodePatchTest, NothingIsSaidWhenNothingDiffers) {
  const NodePatch patch = Patch();
  EXPECT_EQ(patch.body, "");
  EXPECT_FALSE(patch.changes);
}

TEST_F(NodePatchTest, OnlyTheHeartbeatsWhenOnlyTimeWentOn) {
  const NodePatch patch = Patch(kAfter);
  EXPECT_FALSE(patch.changes);
  EXPECT_EQ(patch.body,
            R"({"metadata":{"uid":"u1"},"status":{"$setElementOrder/conditions":[)"
            R"({"type":"MemoryPressure"},{"type":"DiskPressure"},{"type":"PIDPressure"},)"
            R"({"type":"Ready"}],"conditions":[)"
            R"({"lastHeartbeatTime":"1970-01-01T00:33:20Z","type":"MemoryPressure"},)"
            R"({"lastHeartbeatTime":"1970-01-01T00:33:20Z","type":"DiskPressure"},)"
            R"({"lastHeartbeatTime":"1970-01-01T00:33:20Z","type":"PIDPressure"},)"
            R"({"lastHeartbeatTime":"1970-01-01T00:33:20Z","type":"Ready"}]}})");
}

TEST_F(NodePatchTest, AConditionThatChangedIsSentWhole) {
  ready = {false, "network is down"};
  const NodePatch patch = Patch();
  EXPECT_TRUE(patch.changes);
  EXPECT_EQ(
      patch.body,
      R"({"metadata":{"uid":"u1"},"status":{"$setElementOrder/conditions":[)"
      R"({"type":"MemoryPressure"},{"type":"DiskPressure"},{"type":"PIDPressure"},)"
      R"({"type":"Ready"}],"conditions":[{"type":"Ready","status":"False",)"
      R"("lastHeartbeatTime":"1970-01-01T00:16:40Z","lastTransitionTime":"1970-01-01T00:16:40Z",)"
      R"("reason":"KubeletNotReady","message":"network is down"}]}})");
}

TEST_F(NodePatchTest, OthersConditionsStayAndKeepTheirPlace) {
  auto* other = server.mutable_status()->add_conditions();
  other->set_type("NetworkUnavailable");
  EXPECT_EQ(Patch().body, "");
  const std::string body = Patch(kAfter).body;
  EXPECT_NE(
      body.find(R"("$setElementOrder/conditions":[{"type":"NetworkUnavailable"},{"type":"Mem)"),
      std::string::npos)
      << body;
  EXPECT_EQ(body.find(R"(,"type":"NetworkUnavailable"})"), std::string::npos) << body;
}

TEST_F(NodePatchTest, AddressesAreReplacedNotMerged) {
  facts.host_ips = {"192.0.2.8", "2001:db8::7"};
  EXPECT_EQ(
      Patch().body,
      R"({"metadata":{"uid":"u1"},"status":{"addresses":[)"
      R"({"type":"InternalIP","address":"192.0.2.8"},{"type":"InternalIP","address":"2001:db8::7"},)"
      R"({"type":"Hostname","address":"n1"},{"$patch":"replace"}]}})");
  server.mutable_status()->clear_addresses();
  EXPECT_EQ(Patch().body.find("$patch"), std::string::npos);
}

TEST_F(NodePatchTest, ResourcesAreComparedByTheirValue) {
  (*server.mutable_status()->mutable_capacity())["memory"].set_string("2Mi");
  EXPECT_EQ(Patch().body, "");
  (*server.mutable_status()->mutable_capacity())["hugepages-2Mi"].set_string("0");
  (*server.mutable_status()->mutable_allocatable())["cpu"].set_string("2");
  EXPECT_EQ(Patch().body, R"({"metadata":{"uid":"u1"},"status":{"capacity":{"hugepages-2Mi":null},)"
                          R"("allocatable":{"cpu":"1500m"}}})");
}

TEST_F(NodePatchTest, WhatSomebodyAdvertisedIsMadeAllocatable) {
  (*server.mutable_status()->mutable_capacity())["example.com/dongle"].set_string("5");
  EXPECT_EQ(Patch().body,
            R"({"metadata":{"uid":"u1"},"status":{"allocatable":{"example.com/dongle":"5"}}})");
}

TEST_F(NodePatchTest, OfANodesInfoOnlyWhatChanged) {
  facts.machine.boot_id = "other";
  facts.images.clear();
  facts.port = 10251;
  server.mutable_status()->mutable_nodeinfo()->mutable_swap()->set_capacity(1);
  EXPECT_EQ(
      Patch().body,
      R"({"metadata":{"uid":"u1"},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":10251}},)"
      R"("nodeInfo":{"bootID":"other","swap":null},"images":null}})");
}

TEST_F(NodePatchTest, AListThatTheServerDropsIsNotSentForEver) {
  server.mutable_status()->clear_runtimehandlers();
  const NodePatch first = Patch();
  EXPECT_NE(first.body.find("runtimeHandlers"), std::string::npos);
  sent = BuildNodeStatus(facts, ready, server.status(), kBefore);
  EXPECT_EQ(Patch().body, "");
  sent->mutable_runtimehandlers(0)->set_name("other");
  EXPECT_NE(Patch().body, "");
}

TEST_F(NodePatchTest, LabelsOfTheConfigurationComeAndGoAndOthersStay) {
  (*server.mutable_metadata()->mutable_labels())["zone"] = "theirs";
  (*server.mutable_metadata()->mutable_annotations())["other"] = "theirs";
  server.mutable_spec()->add_taints()->set_key("admin");
  EXPECT_EQ(Patch().body, "");
  facts.labels.erase("disk");
  facts.labels["rack"] = "r1";
  facts.own_labels = {"rack"};
  server.mutable_metadata()->mutable_labels()->erase("kubernetes.io/os");
  EXPECT_EQ(Patch().body,
            R"({"metadata":{"labels":{"kubernetes.io/os":"linux","rack":"r1","disk":null},)"
            R"("annotations":{"holdfast.dev/labels":"rack"},"uid":"u1"}})");
  facts.labels.erase("rack");
  facts.own_labels.clear();
  EXPECT_EQ(Patch().body, R"({"metadata":{"labels":{"kubernetes.io/os":"linux","disk":null},)"
                          R"("annotations":{"holdfast.dev/labels":null},"uid":"u1"}})");
}

}  // namespace
}  // namespace holdfast::agent
