// SPDX-License-Identifier: Apache-2.0
// A pod that the node wants to end: how it is stopped, what is shown and told, and that it never comes back.
#include <gtest/gtest.h>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;

constexpr char kOne[] = R"(containers { name: "app" image: "x" })";
constexpr char kWhy[] = "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". ";

TEST(EvictionTest, EndsWithinASecondAsFailed) {
  PodWorld world(kOne);
  world.memory.origin = PodOrigin::kApi;
  world.Run();
  world.events.clear();
  world.eviction = kWhy;
  EXPECT_EQ(world.Run(), Actions{"signal app 15"});
  EXPECT_EQ(world.events, (Actions{StrCat("Evicted: ", kWhy), "Killing: Stopping container app"}));
  EXPECT_EQ(world.last.status.phase(), "Running") << "as long as something runs";
  world.Pass(seconds(2));
  EXPECT_EQ(world.Look(), Actions{"kill app"})
      << "a second, and never less than two after the signal";
  EXPECT_EQ(world.Run(),
            (Actions{"kill app", "remove app#0", "remove sandbox", "release volumes"}));
  EXPECT_EQ(world.last.status.phase(), "Failed");
  EXPECT_EQ(world.last.status.reason(), "Evicted");
  EXPECT_EQ(world.last.status.message(), kWhy);
  EXPECT_TRUE(world.last.released);
}

TEST(EvictionTest, APodThatEndsAlreadyGoesOnAsItDoes) {
  PodWorld world(kOne);
  world.Run();
  world.deletion_grace = seconds(30);
  world.Run();
  world.events.clear();
  world.eviction = kWhy;
  EXPECT_TRUE(world.Run().empty());
  EXPECT_EQ(world.events, Actions{});
  world.Exit("app", 0);
  world.Run();
  EXPECT_EQ(world.last.status.phase(), "Succeeded");
}

TEST(EvictionTest, ItIsNotTakenBackAndADeletionShortensIt) {
  PodWorld world(kOne);
  world.Run();
  world.eviction = kWhy;
  world.Run();
  world.eviction.reset();
  world.RestartAgent();
  EXPECT_TRUE(world.Run().empty()) << "the signal was sent";
  world.Exit("app", 0);
  world.Run();
  EXPECT_EQ(world.last.status.reason(), "Evicted");
  world.deletion_grace = seconds(0);
  EXPECT_EQ(world.Run(), Actions{"clean up"});
}

}  // namespace
}  // namespace holdfast::agent
