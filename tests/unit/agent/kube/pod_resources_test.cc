// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/pod_resources.h"

#include <gtest/gtest.h>

#include "agent/kube/defaulting.h"
#include "agent/kube/manifest_reader.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

using model::QosClass;

corev1::Pod ReadPod(const std::string& spec) {
  Manifest manifest =
      ReadManifest("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n" + spec);
  EXPECT_TRUE(manifest.ok()) << ToString(manifest.diagnostics);
  corev1::Pod pod = *manifest.objects.at(0).As<corev1::Pod>();
  SetPodDefaults(&pod);
  return pod;
}

std::string Text(const ResourceList& list, std::string_view name) {
  const auto it = list.find(name);
  return it == list.end() ? "none" : it->second.ToString();
}

TEST(PodResourcesTest, TakesTheLargerOfContainersAndInitContainers) {
  const corev1::Pod pod = ReadPod(R"(
  overhead: {cpu: 10m}
  initContainers:
  - {name: i1, image: i, resources: {requests: {cpu: 700m, memory: 10Mi}}}
  - {name: s1, image: i, restartPolicy: Always, resources: {requests: {cpu: 100m, memory: 5Mi}}}
  - {name: i2, image: i, resources: {requests: {cpu: 650m}}}
  containers:
  - {name: a, image: i, resources: {requests: {cpu: 200m, memory: 20Mi}}}
  - {name: b, image: i, resources: {requests: {cpu: 300m}, limits: {cpu: 1}}}
)");
  const ResourceList requests = PodRequests(pod.spec());
  EXPECT_EQ(Text(requests, "cpu"), "760m");  // i2 beside s1, plus overhead
  EXPECT_EQ(Text(requests, "memory"), "25Mi");
  EXPECT_EQ(CpuMilli(requests), 760);
  EXPECT_EQ(MemoryBytes(requests), 25 << 20);
  EXPECT_EQ(MemoryBytes(PodLimits(pod.spec())), std::nullopt);
  EXPECT_FALSE(HasPodLimit(pod.spec(), "cpu"));
  EXPECT_EQ(ComputeQosClass(pod.spec()), QosClass::kBurstable);
}

TEST(PodResourcesTest, PodLevelValuesWin) {
  const corev1::Pod pod = ReadPod(R"(
  resources: {requests: {cpu: 1}, limits: {cpu: 2, memory: 1Gi}}
  containers: [{name: a, image: i, resources: {requests: {cpu: 200m}}}]
)");
  EXPECT_EQ(CpuMilli(PodRequests(pod.spec())), 1000);
  EXPECT_EQ(CpuMilli(PodLimits(pod.spec())), 2000);
  EXPECT_TRUE(HasPodLimit(pod.spec(), "memory"));
}

TEST(PodResourcesTest, QosClasses) {
  const auto qos = [](const std::string& resources) {
    return ComputeQosClass(
        ReadPod("  containers: [{name: a, image: i, resources: {" + resources + "}}]\n").spec());
  };
  EXPECT_EQ(qos(""), QosClass::kBestEffort);
  EXPECT_EQ(qos("requests: {cpu: 0}"), QosClass::kBestEffort);
  EXPECT_EQ(qos("limits: {ephemeral-storage: 1Gi}"), QosClass::kBestEffort);
  EXPECT_EQ(qos("limits: {cpu: 1}"), QosClass::kBurstable);
  EXPECT_EQ(qos("limits: {cpu: 1, memory: 1Gi}"), QosClass::kGuaranteed);
  EXPECT_EQ(qos("limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1000m}"), QosClass::kGuaranteed);
  EXPECT_EQ(qos("limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 500m}"), QosClass::kBurstable);
  EXPECT_EQ(
      ComputeQosClass(ReadPod("  containers:\n"
                              "  - {name: a, image: i, resources: {limits: {cpu: 1, memory: 1}}}\n"
                              "  - {name: b, image: i}\n")
                          .spec()),
      QosClass::kBurstable);
  EXPECT_EQ(QosClassName(QosClass::kBestEffort), "BestEffort");
}

TEST(PodResourcesTest, OomScores) {
  constexpr int64_t kNode = int64_t{10} << 30;
  const auto score = [](const corev1::Pod& pod, int container) {
    return OomScoreAdjust(pod, pod.spec().containers(container), kNode);
  };
  const corev1::Pod best_effort = ReadPod("  containers: [{name: a, image: i}]\n");
  EXPECT_EQ(score(best_effort, 0), 1000);
  const corev1::Pod guaranteed =
      ReadPod("  containers: [{name: a, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}]\n");
  EXPECT_EQ(score(guaranteed, 0), -997);
  corev1::Pod burstable = ReadPod(R"(
  initContainers: [{name: side, image: i, restartPolicy: Always}]
  containers:
  - {name: a, image: i, resources: {requests: {memory: 1Gi}}}
  - {name: b, image: i, resources: {requests: {memory: 20Gi}}}
  - {name: c, image: i, resources: {requests: {cpu: 1m}}}
)");
  EXPECT_EQ(score(burstable, 0), 900);
  EXPECT_EQ(score(burstable, 1), 3);
  EXPECT_EQ(score(burstable, 2), 999);
  burstable.mutable_spec()->mutable_containers()->RemoveLast();
  EXPECT_EQ(OomScoreAdjust(burstable, burstable.spec().initcontainers(0), kNode), 900);
  burstable.mutable_spec()->set_priority(2'000'001'000);
  burstable.mutable_spec()->set_priorityclassname("system-node-critical");
  EXPECT_TRUE(IsCriticalPod(burstable));
  EXPECT_EQ(score(burstable, 0), -997);
}

TEST(PodResourcesTest, StaticPodsAreCritical) {
  corev1::Pod pod = ReadPod("  containers: [{name: a, image: i}]\n");
  EXPECT_FALSE(IsCriticalPod(pod));
  (*pod.mutable_metadata()->mutable_annotations())["kubernetes.io/config.source"] = "api";
  EXPECT_FALSE(IsCriticalPod(pod));
  (*pod.mutable_metadata()->mutable_annotations())["kubernetes.io/config.source"] = "file";
  EXPECT_TRUE(IsCriticalPod(pod));
}

}  // namespace
}  // namespace holdfast::agent::kube
