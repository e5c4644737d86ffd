// SPDX-License-Identifier: Apache-2.0
// Of which pod kubectl takes the logs, and to which it attaches.
#include "agent/cli/best_pod.h"

#include <gtest/gtest.h>

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

struct Spec {
  const char* name;
  const char* phase = "Running";
  int ready_since = -1;  // -1: it is not
  int restarts = 0;
  int created = 100;
};

core::Pod MakePod(const Spec& spec) {
  core::Pod pod;
  pod.mutable_metadata()->set_name(spec.name);
  pod.mutable_metadata()->mutable_creationtimestamp()->set_seconds(spec.created);
  pod.mutable_status()->set_phase(spec.phase);
  pod.mutable_status()->add_containerstatuses()->set_restartcount(spec.restarts);
  auto& ready = *pod.mutable_status()->add_conditions();
  ready.set_type("Ready");
  ready.set_status(spec.ready_since < 0 ? "False" : "True");
  ready.mutable_lasttransitiontime()->set_seconds(std::max(spec.ready_since, 0));
  return pod;
}

// "attach logs"
std::string Best(const std::vector<Spec>& specs) {
  std::vector<core::Pod> pods;
  for (const Spec& spec : specs) pods.push_back(MakePod(spec));
  return BestPod(pods, PodUse::kAttach)->metadata().name() + " " +
         BestPod(pods, PodUse::kLogs)->metadata().name();
}

TEST(BestPodTest, IsTheOneThatKubectlTakes) {
  EXPECT_EQ(Best({{"a", "Pending"}, {"b", "Unknown"}, {"c"}}), "c c");
  EXPECT_EQ(Best({{"a", "Unknown"}, {"b", "Failed"}}), "a b") << "who has ended has logs";
  EXPECT_EQ(Best({{"a"}, {"b", "Running", 7}}), "b b");
  EXPECT_EQ(Best({{"a", "Running", 9}, {"b", "Running", 7}, {"c", "Running", 0}}), "b b");
  EXPECT_EQ(Best({{"a", "Running", -1, 1}, {"b", "Running", -1, 3}}), "a b");
  EXPECT_EQ(Best({{"a", "Running", -1, 0, 9}, {"b", "Running", -1, 0, 5}}), "b b");
  EXPECT_EQ(BestPod({}, PodUse::kLogs), nullptr);
}

TEST(BestPodTest, BelongsToADeploymentThroughItsReplicaSet) {
  core::Pod pod;
  auto& owner = *pod.mutable_metadata()->add_ownerreferences();
  owner.set_kind("ReplicaSet");
  owner.set_name("web-5d");
  EXPECT_TRUE(IsOwnedBy(pod, "ReplicaSet", "web-5d"));
  EXPECT_FALSE(IsOwnedBy(pod, "Deployment", "web")) << "no hash: nobody knows";
  (*pod.mutable_metadata()->mutable_labels())["pod-template-hash"] = "5d";
  EXPECT_TRUE(IsOwnedBy(pod, "Deployment", "web"));
  EXPECT_FALSE(IsOwnedBy(pod, "Deployment", "web-5d"));
  EXPECT_FALSE(IsOwnedBy(pod, "StatefulSet", "web-5d"));
}

}  // namespace
}  // namespace holdfast::agent::cli
