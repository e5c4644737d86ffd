// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/static_pod_inputs.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

struct Cluster : NoInputs {
  std::optional<std::vector<std::string>> ServiceVariables(const PodUid& /*uid*/,
                                                           const std::string& of_namespace,
                                                           bool links) const override {
    if (!heard) return std::nullopt;
    return std::vector<std::string>{of_namespace + (links ? "=all" : "=kubernetes")};
  }
  bool heard = false;
};

TEST(StaticPodInputsTest, ServicesThatAreKnownAndNoWaitForOthers) {
  Cluster cluster;
  const StaticPodInputs inputs(cluster);
  using Variables = std::vector<std::string>;
  EXPECT_EQ(inputs.ServiceVariables(PodUid("p"), "kube-system", true), Variables());
  cluster.heard = true;
  EXPECT_EQ(inputs.ServiceVariables(PodUid("p"), "kube-system", true),
            Variables{"kube-system=all"});
  EXPECT_EQ(inputs.ServiceVariables(PodUid("p"), "default", false),
            Variables{"default=kubernetes"});
}

}  // namespace
}  // namespace holdfast::agent
