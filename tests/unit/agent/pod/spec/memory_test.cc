// SPDX-License-Identifier: Apache-2.0
// Swap and memory.{min,low,high} of containers and pods, against a kubelet's formulas (feature-map 2.4.10, 2.4.13).
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "agent/pod/spec/resources.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr int64_t kMi = 1 << 20;

std::string AmountsText(const char* list, const std::string& memory, const std::string& cpu) {
  std::string out;
  for (const auto& [key, value] : {std::pair("memory", memory), std::pair("cpu", cpu)}) {
    if (value.empty()) continue;
    out += StrCat(list, " { key: \"", key, "\" value { string: \"", value, "\" } } ");
  }
  return out;
}

// As an API server's: one of a file is critical.
corev1::Pod PodAsking(const std::string& request, const std::string& limit,
                      const std::string& more = "") {
  corev1::Pod pod;
  (*pod.mutable_metadata()->mutable_annotations())["kubernetes.io/config.source"] = "api";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      StrCat("containers { name: \"c\" resources { ", AmountsText("requests", request, ""),
             AmountsText("limits", limit, ""), " } } ", more),
      pod.mutable_spec()));
  return pod;
}

// Four times as much memory as swap.
NodeEnvironment MemoryNode() {
  NodeEnvironment node;
  node.memory_capacity_bytes = 1000 * kMi;
  node.memory_allocatable_bytes = 900 * kMi;
  node.swap_capacity_bytes = 250 * kMi;
  return node;
}

int64_t Swap(const corev1::Pod& pod, const NodeEnvironment& node) {
  return ContainerResources(pod, pod.spec().containers(0), node).swap_limit_bytes;
}

TEST(SwapTest, ABurstableContainerHasItsPartOfIt) {
  NodeEnvironment node = MemoryNode();
  EXPECT_EQ(Swap(PodAsking("100Mi", "200Mi"), node), 0) << "NoSwap";
  node.memory.limited_swap = true;
  EXPECT_EQ(Swap(PodAsking("100Mi", "200Mi"), node), 25 * kMi);
  EXPECT_EQ(Swap(PodAsking("100Mi", ""), node), 25 * kMi) << "without a limit too";
  EXPECT_EQ(Swap(PodAsking("1", "200Mi"), node), 0) << "less than a byte";
  EXPECT_EQ(Swap(PodAsking("1001Mi", "2000Mi"), node), 0) << "more than there is";
  EXPECT_EQ(Swap(PodAsking("", ""), node), 0) << "BestEffort";
  EXPECT_EQ(Swap(PodAsking("", "200Mi"), node), 0);
  EXPECT_EQ(Swap(PodAsking("100Mi", "100Mi"), node), 0) << "its request is its limit";
  const std::string all =
      AmountsText("requests", "100Mi", "1") + AmountsText("limits", "100Mi", "1");
  corev1::Pod guaranteed = PodAsking("", "");
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      StrCat("containers { name: \"c\" resources { ", all, " } }"), guaranteed.mutable_spec()));
  EXPECT_EQ(Swap(guaranteed, node), 0);
  EXPECT_EQ(Swap(PodAsking("100Mi", "200Mi", "priority: 2000000000"), node), 0) << "critical";
  corev1::Pod of_a_file = PodAsking("100Mi", "200Mi");
  (*of_a_file.mutable_metadata()->mutable_annotations())["kubernetes.io/config.source"] = "file";
  EXPECT_EQ(Swap(of_a_file, node), 0) << "critical too";
  node.swap_capacity_bytes = 0;
  EXPECT_EQ(Swap(PodAsking("100Mi", "200Mi"), node), 0);
}

TEST(MemoryQosTest, AContainerIsSlowedDownBelowItsLimit) {
  NodeEnvironment node = MemoryNode();
  const auto high = [&](const std::string& request, const std::string& limit) {
    const corev1::Pod pod = PodAsking(request, limit);
    return ContainerResources(pod, pod.spec().containers(0), node).memory_high_bytes;
  };
  EXPECT_EQ(high("100Mi", "200Mi"), std::nullopt) << "it is off";
  node.memory.qos = true;
  EXPECT_EQ(high("100Mi", "200Mi"), 190 * kMi);
  EXPECT_EQ(high("", "200Mi"), 180 * kMi);
  EXPECT_EQ(high("100Mi", ""), 820 * kMi) << "towards what all pods may have";
  EXPECT_EQ(high("10000", "20000"), 16384) << "19000, in whole pages";
  EXPECT_EQ(high("10000", "10001"), std::nullopt) << "not above the request";
  EXPECT_EQ(high("100Mi", "100Mi"), std::nullopt);
  EXPECT_EQ(high("", ""), std::nullopt);
  EXPECT_EQ(high("950Mi", ""), std::nullopt) << "more than all pods may have";
  node.memory.throttling_factor = 0.5;
  EXPECT_EQ(high("100Mi", "200Mi"), 150 * kMi);
  node.memory_allocatable_bytes = 0;
  EXPECT_EQ(high("100Mi", ""), std::nullopt) << "it is not known";
}

TEST(MemoryQosTest, RequestsAreKeptByTheQosClass) {
  NodeEnvironment node = MemoryNode();
  node.memory.qos = true;
  const corev1::Pod burstable = PodAsking("100Mi", "200Mi");
  const auto kept = [&](const corev1::Pod& pod) {
    const auto container = ContainerResources(pod, pod.spec().containers(0), node);
    const auto whole = PodResources(pod, node.memory);
    return StrCat(container.memory_min_bytes / kMi, " ", container.memory_low_bytes / kMi, ", ",
                  whole.memory_min_bytes / kMi, " ", whole.memory_low_bytes / kMi);
  };
  EXPECT_EQ(kept(burstable), "0 0, 0 0") << "the policy is None";
  node.memory.reserves = true;
  EXPECT_EQ(kept(burstable), "0 100, 0 100");
  EXPECT_EQ(kept(PodAsking("", "")), "0 0, 0 0");
  EXPECT_EQ(kept(PodAsking("100Mi", "200Mi",
                           StrCat("containers { name: \"d\" resources { ",
                                  AmountsText("requests", "50Mi", ""), " } }"))),
            "0 100, 0 150");
  corev1::Pod guaranteed;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      StrCat("containers { name: \"c\" resources { ", AmountsText("requests", "100Mi", "1"),
             AmountsText("limits", "100Mi", "1"), " } }"),
      guaranteed.mutable_spec()));
  EXPECT_EQ(kept(guaranteed), "100 0, 100 0");
}

}  // namespace
}  // namespace holdfast::agent
