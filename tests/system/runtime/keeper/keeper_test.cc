// SPDX-License-Identifier: Apache-2.0
// The keeper's promises without any kill: launch, exit, logs, descriptors, sandboxes, upgrade.
#include <gtest/gtest.h>

#include "holdfast/sys/files.h"
#include "runtime/plan/wire.h"
#include "tests/system/runtime/keeper/harness.h"

namespace holdfast::runtime::keeper {
namespace {

TEST_F(KeeperTest, OneContainerFromLaunchToForget) {
  StartHolder();
  Subject one = Make("one", {"/bin/chatter", "lines", "0", "7", "1000"}, 7);
  auto launched = Start(one);
  ASSERT_TRUE(launched) << launched.error().step << ": " << launched.error().text;
  EXPECT_EQ(one.start.pid, launched->pid);
  EXPECT_EQ(one.start.tag, "tag of " + one.id);
  const model::ExitReport report = WaitExit(one);
  EXPECT_EQ(report.exit_code, 7);
  EXPECT_EQ(report.source, model::ExitReport::Source::kWaited);
  ASSERT_TRUE(client().WaitLogDrained(ContainerId(one.id), std::chrono::seconds(10)));
  EXPECT_EQ(ExpectComplete(one), 1100u);
  Clean(one);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace holdfast::runtime::keeper
