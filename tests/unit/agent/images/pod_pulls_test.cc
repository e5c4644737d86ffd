// SPDX-License-Identifier: Apache-2.0
#include "agent/images/pod_pulls.h"

#include <gtest/gtest.h>

#include <optional>

namespace holdfast::agent {
namespace {

TEST(PodPullsTest, ShowsWhatIsUnderWayAndHowFarItIs) {
  PodPulls pulls;
  EXPECT_TRUE(pulls.List().empty());
  std::optional<PodPulls::Shown> second;
  second.emplace(pulls, PodPull{"b", "web", "u2", "app", "nginx", WallTime()});
  PodPulls::Shown first(pulls, PodPull{"a", "web", "u1", "app", "nginx", WallTime()});
  second->Update({.layers = {{"sha256:1", 10, 4, LayerProgress::State::kDownloading}}});
  const auto all = pulls.List();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].pod_uid, "u1");
  EXPECT_TRUE(all[0].progress.layers.empty());
  EXPECT_EQ(all[1].pod_uid, "u2");
  ASSERT_EQ(all[1].progress.layers.size(), 1u);
  EXPECT_EQ(all[1].progress.layers[0].bytes, 4u);
  second.reset();
  EXPECT_EQ(pulls.List().size(), 1u);
}

}  // namespace
}  // namespace holdfast::agent
