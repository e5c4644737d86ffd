// SPDX-License-Identifier: Apache-2.0
// The ladder of overlay mounts: every rung is forced through HostFacts, with few and with many
// layers.
#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using State = LaunchOutcome::State;

class RootTest : public LaunchTest {
 protected:
  // Layer i holds /l/<i> and overrides /top.
  std::vector<std::string> MakeLayers(int count) {
    std::vector<std::string> layers = {Path("image")};
    for (int i = 1; i < count; ++i) {
      const std::string layer = "layer" + std::to_string(i);
      std::filesystem::create_directories(Path(layer + "/l"));
      WriteFile(layer + "/l/" + std::to_string(i), "x");
      WriteFile(layer + "/top", std::to_string(i));
      layers.push_back(Path(layer));
    }
    return layers;
  }

  void ExpectStarts(int count) {
    model::LaunchPlan plan = BasePlan({"probe", "cat", "/top", "/l/1"});
    plan.root.layers = MakeLayers(count);
    plan.root.scratch = Path("scratch");
    const RunResult run = Run(plan);
    ASSERT_EQ(run.outcome.state, State::kRunning) << count << " layers: " << Why(run);
    EXPECT_EQ(run.output, std::to_string(count - 1) + "x");
    std::filesystem::remove_all(Path("scratch"));
    std::filesystem::create_directory(Path("scratch"));
  }
};

TEST_F(RootTest, EveryRungOfTheLadderStartsImagesOfAnyDepth) {
  const sys::HostFacts found = context_.facts;
  for (const bool by_fd : {true, false}) {
    for (const bool one_by_one : {true, false}) {
      if ((by_fd && !found.overlay_lower_fd) || (one_by_one && !found.overlay_lower_add)) continue;
      context_.facts.overlay_lower_fd = by_fd;
      context_.facts.overlay_lower_add = one_by_one;
      SCOPED_TRACE(testing::Message()
                   << "by descriptor " << by_fd << ", one by one " << one_by_one);
      ExpectStarts(2);
      ExpectStarts(40);
      ExpectStarts(130);  // above what one fsconfig option holds: the classic mount
    }
  }
}

TEST_F(RootTest, AnUpperDirectoryOfAnEarlierStartIsUsedAgain) {
  EXPECT_EQ(Run(BasePlan({"probe", "write", "/kept", "x"})).outcome.state, State::kRunning);
  const RunResult again = Run(BasePlan({"probe", "cat", "/kept"}));
  EXPECT_EQ(again.output, "x") << Why(again);
}

}  // namespace
}  // namespace holdfast::runtime
