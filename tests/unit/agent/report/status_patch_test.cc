// SPDX-License-Identifier: Apache-2.0
#include "agent/report/status_patch.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;

corev1::PodStatus Status(const std::string& text) {
  corev1::PodStatus status;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &status)) << text;
  return status;
}

// What stands within "status".
std::string Patch(const std::string& server, const std::string& ours) {
  const std::string patch = StatusPatch(PodUid("u1"), Status(server), Status(ours));
  if (patch.empty()) return "";
  const std::string begin = R"({"metadata":{"uid":"u1"},"status":)";
  EXPECT_TRUE(patch.starts_with(begin)) << patch;
  return patch.substr(begin.size(), patch.size() - begin.size() - 1);
}

TEST(StatusPatchTest, SaysNothingOfWhatIsAsItIs) {
  EXPECT_EQ(Patch("", ""), "");
  const std::string full = R"(
      phase: "Running" hostIP: "192.0.2.1" hostIPs { ip: "192.0.2.1" } podIP: "10.0.0.1"
      podIPs { ip: "10.0.0.1" } observedGeneration: 2 qosClass: "BestEffort"
      conditions { type: "Ready" status: "True" lastTransitionTime { seconds: 5 } }
      containerStatuses { name: "app" ready: true state { running { startedAt { seconds: 7 } } }
                          lastState {} })";
  EXPECT_EQ(Patch(full, full), "");
}

TEST(StatusPatchTest, AnAbsentValueIsAnEmptyOne) {
  EXPECT_EQ(Patch(R"(containerStatuses { name: "a" ready: false restartCount: 0 image: ""
                                         imageID: "" lastState {} state {} containerID: "" }
                     startTime { seconds: 7 nanos: 0 } reason: "" message: "")",
                  R"(containerStatuses { name: "a" state {} lastState {} }
                     startTime { seconds: 7 })"),
            "");
}

TEST(StatusPatchTest, NamesOnlyWhatDiffers) {
  EXPECT_EQ(Patch(R"(phase: "Pending")", R"(phase: "Running" observedGeneration: 3)"),
            R"({"phase":"Running","observedGeneration":3})");
}

TEST(StatusPatchTest, WhatIsNotOursIsNeverNamed) {
  EXPECT_EQ(Patch(R"(qosClass: "Guaranteed" nominatedNodeName: "n2"
                     resourceClaimStatuses { name: "c" }
                     conditions { type: "gate.io/x" status: "True" }
                     conditions { type: "DisruptionTarget" status: "True" })",
                  R"(qosClass: "BestEffort" conditions { type: "gate.io/x" status: "False" })"),
            "");
}

TEST(StatusPatchTest, WhatTheNodeEndsAPodForIsAddedBesideWhatOthersSay) {
  EXPECT_EQ(Patch(R"(conditions { type: "gate.io/x" status: "True" })",
                  R"(conditions { type: "DisruptionTarget" status: "True"
                                  reason: "TerminationByKubelet" message: "m"
                                  lastTransitionTime { seconds: 60 } })"),
            R"({"conditions":[{"status":"True","lastTransitionTime":"1970-01-01T00:01:00Z",)"
            R"("reason":"TerminationByKubelet","message":"m","type":"DisruptionTarget"}]})");
}

TEST(StatusPatchTest, AConditionIsMergedByItsType) {
  EXPECT_EQ(Patch(R"(conditions { type: "Ready" status: "False" reason: "ContainersNotReady"
                                  message: "m" lastTransitionTime { seconds: 5 } })",
                  R"(conditions { type: "Ready" status: "True" lastTransitionTime { seconds: 60 }
                                  observedGeneration: 1 })"),
            R"({"conditions":[{"status":"True","lastTransitionTime":"1970-01-01T00:01:00Z",)"
            R"("reason":null,"message":null,"observedGeneration":1,"type":"Ready"}]})");
}

TEST(StatusPatchTest, ATransitionsTimeIsTheServersUnlessThereIsATransition) {
  EXPECT_EQ(
      Patch(R"(conditions { type: "Ready" status: "True" lastTransitionTime { seconds: 5 } })",
            R"(conditions { type: "Ready" status: "True" lastTransitionTime { seconds: 60 } })"),
      "");
}

TEST(StatusPatchTest, AResizeHasAnotherTimeForAnotherReason) {
  const std::string deferred =
      R"(conditions { type: "PodResizePending" status: "True" reason: "Deferred"
      lastProbeTime { seconds: 5 } lastTransitionTime { seconds: 5 } observedGeneration: 2 })";
  EXPECT_EQ(Patch(deferred, deferred), "");
  EXPECT_EQ(Patch(deferred, R"(conditions { type: "PodResizePending" status: "True"
      reason: "Infeasible" lastProbeTime { seconds: 60 } lastTransitionTime { seconds: 60 }
      observedGeneration: 2 })"),
            R"({"conditions":[{"lastTransitionTime":"1970-01-01T00:01:00Z","reason":"Infeasible",)"
            R"("lastProbeTime":"1970-01-01T00:01:00Z","type":"PodResizePending"}]})");
  EXPECT_EQ(Patch(deferred, ""),
            R"({"conditions":[{"$patch":"delete","type":"PodResizePending"}]})");
}

TEST(StatusPatchTest, AmountsOfThePodAreTold) {
  EXPECT_EQ(Patch("", R"(allocatedResources { key: "cpu" value { string: "1" } }
                         resources { requests { key: "cpu" value { string: "1" } } })"),
            R"({"allocatedResources":{"cpu":"1"},"resources":{"requests":{"cpu":"1"}}})");
}

TEST(StatusPatchTest, PodScheduledIsTheServersButForItsGeneration) {
  const std::string ours =
      R"(conditions { type: "PodScheduled" status: "True" lastTransitionTime { seconds: 60 }
                      observedGeneration: 2 })";
  EXPECT_EQ(Patch(R"(conditions { type: "PodScheduled" status: "False" reason: "r"
                                  observedGeneration: 1 })",
                  ours),
            R"({"conditions":[{"observedGeneration":2,"type":"PodScheduled"}]})");
  EXPECT_EQ(Patch("", ours),
            R"({"conditions":[{"status":"True","lastTransitionTime":"1970-01-01T00:01:00Z",)"
            R"("observedGeneration":2,"type":"PodScheduled"}]})")
      << "nobody scheduled it";
  EXPECT_EQ(Patch(R"(conditions { type: "PodScheduled" status: "True" })", ""), "");
}

TEST(StatusPatchTest, AConditionOfOursThatIsOverGoes) {
  EXPECT_EQ(Patch(R"(conditions { type: "PodResizePending" status: "True" })", ""),
            R"({"conditions":[{"$patch":"delete","type":"PodResizePending"}]})");
}

TEST(StatusPatchTest, AnAddressThatChangedTakesTheOldOneAway) {
  EXPECT_EQ(
      Patch(R"(podIP: "10.0.0.1" podIPs { ip: "10.0.0.1" } podIPs { ip: "fd00::1" })",
            R"(podIP: "10.0.0.2" podIPs { ip: "10.0.0.2" } podIPs { ip: "fd00::1" })"),
      R"({"podIP":"10.0.0.2","$setElementOrder/podIPs":[{"ip":"10.0.0.2"},{"ip":"fd00::1"}],)"
      R"("podIPs":[{"ip":"10.0.0.2"},{"ip":"fd00::1"},{"$patch":"delete","ip":"10.0.0.1"}]})");
}

TEST(StatusPatchTest, BothFormsOfAnAddressGoTogether) {
  EXPECT_EQ(Patch("", R"(hostIP: "192.0.2.1" hostIPs { ip: "192.0.2.1" })"),
            R"({"hostIP":"192.0.2.1","$setElementOrder/hostIPs":[{"ip":"192.0.2.1"}],)"
            R"("hostIPs":[{"ip":"192.0.2.1"}]})");
  EXPECT_EQ(Patch(R"(podIP: "10.0.0.1")", R"(podIP: "10.0.0.1" podIPs { ip: "10.0.0.1" })"),
            R"({"podIP":"10.0.0.1","$setElementOrder/podIPs":[{"ip":"10.0.0.1"}],)"
            R"("podIPs":[{"ip":"10.0.0.1"}]})");
}

TEST(StatusPatchTest, AddressesStayWhenThereIsNoneAnyMore) {
  EXPECT_EQ(Patch(R"(podIP: "10.0.0.1" podIPs { ip: "10.0.0.1" })", ""), "");
}

TEST(StatusPatchTest, ContainersGoAsAWhole) {
  EXPECT_EQ(
      Patch(R"(containerStatuses { name: "a" lastState {} ready: true }
                     containerStatuses { name: "b" lastState {} })",
            R"(containerStatuses { name: "a" lastState {} }
                     containerStatuses { name: "b" lastState {} })"),
      R"({"containerStatuses":[)"
      R"({"name":"a","state":{},"lastState":{},"ready":false,"restartCount":0,"image":"","imageID":""},)"
      R"({"name":"b","state":{},"lastState":{},"ready":false,"restartCount":0,"image":"","imageID":""}]})");
}

TEST(StatusPatchTest, TheStartTimeNeverChanges) {
  EXPECT_EQ(Patch(R"(startTime { seconds: 5 })", R"(startTime { seconds: 60 })"), "");
  EXPECT_EQ(Patch("", R"(startTime { seconds: 60 })"), R"({"startTime":"1970-01-01T00:01:00Z"})");
}

TEST(StatusPatchTest, ATerminalPhaseIsNeverLeft) {
  EXPECT_EQ(Patch(R"(phase: "Failed")", R"(phase: "Succeeded")"), "");
  EXPECT_EQ(Patch(R"(phase: "Succeeded")", R"(phase: "Running" observedGeneration: 1)"),
            R"({"observedGeneration":1})");
}

TEST(StatusPatchTest, AReasonThatIsOverGoes) {
  EXPECT_EQ(Patch(R"(reason: "NodeLost" message: "m")", R"(message: "n")"),
            R"({"reason":null,"message":"n"})");
}

}  // namespace
}  // namespace holdfast::agent
