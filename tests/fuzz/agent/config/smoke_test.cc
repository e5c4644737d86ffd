// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "agent/config/agent_config.h"
#include "tests/fuzz/agent/config/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

TEST(FuzzSmokeTest, AgentConfig) {
  const std::string good =
      "apiVersion: holdfast.dev/v1\nkind: AgentConfiguration\nmaxPods: 30\n"
      "kubeReserved: {cpu: 100m, memory: 200Mi}\nclusterDNS: [10.96.0.10]\n"
      "evictionHard: {memory.available: 5%}\nnodeLabels: {a.b/c: d}\n"
      "registerWithTaints: [\"dedicated=gpu:NoSchedule\"]\nmaxContainerRestartPeriod: 1m30s\n";
  agent::AgentConfig config;
  const auto read = agent::ReadConfigText(good, "agent.yaml", config);
  EXPECT_TRUE(read) << read.error().message();
  Replay(FuzzAgentConfig, {good, agent::ConfigJson(config)}, ":{}[],\"%\n -");
}

}  // namespace
}  // namespace holdfast::fuzz
