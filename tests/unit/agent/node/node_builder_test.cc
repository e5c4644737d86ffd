// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/kube/codec.h"
#include "agent/node/node_images.h"
#include "tests/unit/agent/node/facts.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;

const WallTime kThen{seconds(1'000)};
const WallTime kNow{seconds(2'000)};

std::string Text(const corev1::NodeCondition& c) {
  return c.type() + "=" + c.status() + " " + c.reason() + ": " + c.message() + " @" +
         std::to_string(c.lasttransitiontime().seconds()) + " " +
         std::to_string(c.lastheartbeattime().seconds());
}

std::vector<std::string> Conditions(const corev1::NodeStatus& status) {
  std::vector<std::string> texts;
  for (const auto& condition : status.conditions()) texts.push_back(Text(condition));
  return texts;
}

TEST(NodeBuilderTest, ANodeIsRegisteredAsAKubeletWould) {
  NodeDescription facts = test::Facts();
  facts.machine.swap_bytes = 4096;
  NodeRegistration registration;
  registration.taints.emplace_back().set_key("dedicated");
  registration.taints.back().set_effect("NoSchedule");
  registration.provider_id = "cloud://n1";
  const corev1::Node node = BuildNode(facts, registration, {false, "not yet"}, kNow);
  EXPECT_EQ(
      kube::EncodeJson(node),
      R"({"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","labels":{"disk":"ssd",)"
      R"("kubernetes.io/arch":"amd64","kubernetes.io/hostname":"n1","kubernetes.io/os":"linux"},)"
      R"("annotations":{"holdfast.dev/labels":"disk",)"
      R"("volumes.kubernetes.io/controller-managed-attach-detach":"true"}},)"
      R"("spec":{"providerID":"cloud://n1","taints":[{"key":"dedicated","effect":"NoSchedule"}]},)"
      R"("status":{"capacity":{"cpu":"2","memory":"2048Ki","pods":"110"},)"
      R"("allocatable":{"cpu":"1500m","memory":"1024Ki","pods":"110"},"conditions":[)"
      R"({"type":"MemoryPressure","status":"False","lastHeartbeatTime":"1970-01-01T00:33:20Z",)"
      R"("lastTransitionTime":"1970-01-01T00:33:20Z","reason":"KubeletHasSufficientMemory",)"
      R"("message":"kubelet has sufficient memory available"},)"
      R"({"type":"DiskPressure","status":"False","lastHeartbeatTime":"1970-01-01T00:33:20Z",)"
      R"("lastTransitionTime":"1970-01-01T00:33:20Z","reason":"KubeletHasNoDiskPressure",)"
      R"("message":"kubelet has no disk pressure"},)"
      R"({"type":"PIDPressure","status":"False","lastHeartbeatTime":"1970-01-01T00:33:20Z",)"
      R"("lastTransitionTime":"1970-01-01T00:33:20Z","reason":"KubeletHasSufficientPID",)"
      R"("message":"kubelet has sufficient PID available"},)"
      R"({"type":"Ready","status":"False","lastHeartbeatTime":"1970-01-01T00:33:20Z",)"
      R"("lastTransitionTime":"1970-01-01T00:33:20Z","reason":"KubeletNotReady","message":"not yet"}],)"
      R"("addresses":[{"type":"InternalIP","address":"192.0.2.7"},)"
      R"({"type":"InternalIP","address":"2001:db8::7"},{"type":"Hostname","address":"n1"}],)"
      R"("daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},"nodeInfo":{"machineID":"m",)"
      R"("systemUUID":"s","bootID":"b","kernelVersion":"6.1.0","osImage":"Debian",)"
      R"("containerRuntimeVersion":"holdfast://0.1.0+git","kubeletVersion":"v1.36.3+holdfast.0.1.0-git",)"
      R"("kubeProxyVersion":"","operatingSystem":"linux","architecture":"amd64","swap":{"capacity":4096}},)"
      R"("images":[{"names":["r@sha256:1","r:1"],"sizeBytes":7}],)"
      R"("runtimeHandlers":[{"name":"","features":{"recursiveReadOnlyMounts":true,"userNamespaces":true}},)"
      R"({"name":"runc","features":{"recursiveReadOnlyMounts":true,"userNamespaces":true}}],)"
      R"("features":{"supplementalGroupsPolicy":true},)"
      R"("declaredFeatures":["ExtendWebSocketsToKubelet","InPlacePodLevelResourcesVerticalScaling",)"
      R"("InPlacePodVerticalScalingInitContainers","RestartAllContainersOnContainerExits"]}})");
}

TEST(NodeBuilderTest, AddressesThatWereGivenAreSaidToBe) {
  NodeDescription facts = test::Facts();
  facts.given_ips = facts.host_ips;
  EXPECT_EQ(BuildNodeMeta(facts).annotations().at("alpha.kubernetes.io/provided-node-ip"),
            "192.0.2.7,2001:db8::7");
}

TEST(NodeBuilderTest, AConditionKeepsTheTimeOfItsLastChange) {
  NodeDescription facts = test::Facts();
  const corev1::NodeStatus before = BuildNodeStatus(facts, ReadyState{false, "x"}, {}, kThen);
  facts.pressure = {true, true, true};
  EXPECT_THAT(
      Conditions(BuildNodeStatus(facts, ReadyState{false, "y"}, before, kNow)),
      testing::ElementsAre("MemoryPressure=True KubeletHasInsufficientMemory: kubelet has "
                           "insufficient memory available @2000 2000",
                           "DiskPressure=True KubeletHasDiskPressure: kubelet has disk pressure "
                           "@2000 2000",
                           "PIDPressure=True KubeletHasInsufficientPID: kubelet has insufficient "
                           "PID available @2000 2000",
                           "Ready=False KubeletNotReady: y @1000 2000"));
}

TEST(NodeBuilderTest, ReadyIsLeftAsItWasWhenNothingIsKnown) {
  const NodeDescription facts = test::Facts();
  const corev1::NodeStatus before = BuildNodeStatus(facts, ReadyState(), {}, kThen);
  EXPECT_EQ(Conditions(BuildNodeStatus(facts, std::nullopt, before, kNow)).back(),
            "Ready=True KubeletReady: kubelet is posting ready status @1000 1000");
}

TEST(NodeBuilderTest, WhatSomebodyAdvertisedCanBeAllocated) {
  corev1::NodeStatus before;
  (*before.mutable_capacity())["example.com/dongle"].set_string("5");
  (*before.mutable_capacity())["ephemeral-storage"].set_string("5Ki");
  const auto status = BuildNodeStatus(test::Facts(), ReadyState(), before, kNow);
  EXPECT_EQ(status.capacity().at("example.com/dongle").string(), "5");
  EXPECT_EQ(status.allocatable().at("example.com/dongle").string(), "5");
  EXPECT_FALSE(status.capacity().contains("ephemeral-storage"));
}

TEST(NodeBuilderTest, EventsHaveAKubeletsReasons) {
  NodeDescription facts = test::Facts();
  std::vector<std::string> reasons;
  for (const bool pressed : {false, true}) {
    facts.pressure = {pressed, pressed, pressed};
    const auto status = BuildNodeStatus(facts, ReadyState{!pressed, ""}, {}, kNow);
    for (const auto& condition : status.conditions()) reasons.push_back(ConditionEvent(condition));
  }
  EXPECT_THAT(reasons, testing::ElementsAre("NodeHasSufficientMemory", "NodeHasNoDiskPressure",
                                            "NodeHasSufficientPID", "NodeReady",
                                            "NodeHasInsufficientMemory", "NodeHasDiskPressure",
                                            "NodeHasInsufficientPID", "NodeNotReady"));
}

TEST(NodeReadinessTest, OneProblemIsShownPlainAndSeveralInBrackets) {
  std::vector<ReadyInput> inputs = {{"runtime", ""}, {"network", ""}, {"storage", ""}};
  EXPECT_TRUE(JudgeReadiness(inputs).ready);
  inputs[1].problem = "no network";
  EXPECT_EQ(JudgeReadiness(inputs).message, "no network");
  inputs[2].problem = "no disk";
  EXPECT_EQ(JudgeReadiness(inputs).message, "[no network, no disk]");
  EXPECT_FALSE(JudgeReadiness(inputs).ready);
}

TEST(NodeReadinessTest, IsShownAtOnceAndWithdrawnWhenItLasts) {
  const std::vector<ReadyInput> unknown = {{"runtime", "not checked", false}};
  const std::vector<ReadyInput> bad = {{"runtime", "down"}};
  const std::vector<ReadyInput> good = {{"runtime", ""}};
  struct Row {
    const std::vector<ReadyInput>& inputs;
    std::optional<bool> shown;
    bool lasted;
    std::string expected;
  };
  for (const Row& row : {
           Row{unknown, std::nullopt, false, "not checked"},  // a new Node says what it is
           Row{unknown, true, true, "as it is"},              // an adopted one nothing yet
           Row{unknown, false, true, "as it is"},             //
           Row{bad, std::nullopt, false, "down"},             //
           Row{bad, true, false, "as it is"},                 //
           Row{bad, true, true, "down"},                      //
           Row{bad, false, false, "down"},                    // its message may have changed
           Row{good, std::nullopt, false, "ready"},           //
           Row{good, false, false, "ready"},                  //
           Row{good, true, true, "ready"},                    //
       }) {
    const auto state = DecideReady(row.inputs, row.shown, row.lasted);
    const std::string text = !state ? "as it is" : state->ready ? "ready" : state->message;
    EXPECT_EQ(text, row.expected) << row.inputs[0].problem;
  }
}

TEST(NodeImagesTest, TheBiggestAreShownWithAFewNames) {
  std::vector<Image> images;
  for (int i = 0; i < 60; ++i) {
    Image image;
    image.size_bytes = static_cast<uint64_t>(i);
    image.repo_digests = {"a@sha256:1", "b@sha256:1"};
    image.repo_tags = {"a:1", "a:2", "a:3", "a:4"};
    images.push_back(image);
  }
  images.emplace_back().size_bytes = 1'000;  // without a name
  const auto shown = ShownImages(images);
  ASSERT_EQ(shown.size(), 50u);
  EXPECT_EQ(shown[0].size_bytes, 59);
  EXPECT_EQ(shown[49].size_bytes, 10);
  EXPECT_THAT(shown[0].names,
              testing::ElementsAre("a@sha256:1", "b@sha256:1", "a:1", "a:2", "a:3"));
}

}  // namespace
}  // namespace holdfast::agent
