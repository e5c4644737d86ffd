// SPDX-License-Identifier: Apache-2.0
// A pod that the node does not take (feature-map 1.10.1).
#include <gtest/gtest.h>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

constexpr char kSpec[] = R"(containers { name: "app" image: "i" })";

TEST(AdmissionTest, ARejectedPodFailsWithoutHavingBegun) {
  PodWorld w(kSpec);
  w.memory.admission = Admission{"OutOfcpu", "no room"};
  EXPECT_EQ(w.Run(), Actions{});
  EXPECT_EQ(w.events, std::vector<std::string>{"OutOfcpu: no room"});
  EXPECT_EQ(w.last.status.phase(), "Failed");
  EXPECT_EQ(w.last.status.reason(), "OutOfcpu");
  EXPECT_EQ(w.last.status.message(), "Pod was rejected: no room");
  EXPECT_EQ(w.last.status.qosclass(), "BestEffort");
  EXPECT_TRUE(w.last.status.has_starttime());
  EXPECT_EQ(w.last.status.conditions_size() + w.last.status.containerstatuses_size(), 0);
  EXPECT_EQ(w.last.status.hostip(), "");
  // Never again, whatever time goes by and whoever looks.
  w.Pass(std::chrono::hours(1));
  w.RestartAgent();
  EXPECT_EQ(w.Run(), Actions{});
  EXPECT_EQ(w.events.size(), 1u) << "told once";
  EXPECT_EQ(w.last.status.phase(), "Failed");
  EXPECT_FALSE(w.last.wake_at);
}

TEST(AdmissionTest, ARejectedPodCanBeRemoved) {
  PodWorld w(kSpec);
  w.memory.admission = Admission{"NodeAffinity", "other node"};
  w.Run();
  w.deletion_grace = std::chrono::seconds(30);
  EXPECT_EQ(w.Run(), Actions{"clean up"});
  EXPECT_EQ(w.last.status.phase(), "Failed");
}

TEST(AdmissionTest, APodThatWasTakenRuns) {
  PodWorld w(kSpec);
  w.memory.admission = Admission{};
  w.Run();
  EXPECT_EQ(w.State("app"), "running");
}

TEST(ImageIdTest, IsTheRepoDigestWhereOneIsKnown) {
  PodWorld w(kSpec);
  w.Run();
  EXPECT_EQ(w.Status("app").imageid(), "sha256:1");
  PodWorld named(kSpec);
  named.images["i"].digest = "docker.io/x@sha256:2";
  named.Run();
  EXPECT_EQ(named.Status("app").imageid(), "docker.io/x@sha256:2");
}

}  // namespace
}  // namespace holdfast::agent
