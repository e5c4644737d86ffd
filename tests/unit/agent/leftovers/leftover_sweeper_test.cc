// SPDX-License-Identifier: Apache-2.0
#include "agent/leftovers/leftover_sweeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <mutex>

#include "holdfast/sys/files.h"
#include "holdfast/sys/tree.h"
#include "tests/support/eventually.h"
#include "tests/support/hostile_tree.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;

class LeftoverSweeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-leftovers-XXXXXX";
    path_ = ::mkdtemp(pattern);
    aside_ = path_ + "/aside";
  }
  void TearDown() override { EXPECT_TRUE(sys::RemoveTreeAt(AT_FDCWD, path_)); }

  // A tree that took more time than it had.
  void SetAside(const std::string& name) const {
    ASSERT_TRUE(test::NestDirectories(path_ + "/" + name, 3));
    const auto told = sys::RemoveOrSetAside(AT_FDCWD, path_ + "/" + name, aside_, milliseconds(0));
    ASSERT_TRUE(told && !told->empty());
  }

  std::string path_;
  std::string aside_;
};

TEST_F(LeftoverSweeperTest, AnAuditNamesWhatIsThereAndARepairRemovesIt) {
  LeftoverSweeper sweeper({path_ + "/none", aside_}, [](const std::string&) {});
  EXPECT_TRUE(sweeper.Audit(false).empty());
  SetAside("tree");
  const auto found = sweeper.Audit(false);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "directory");
  EXPECT_TRUE(found[0].object.starts_with(aside_ + "/")) << found[0].object;
  EXPECT_EQ(found[0].reason, "could not be removed and was set aside");
  EXPECT_EQ(sweeper.Audit(true).size(), 1u) << "names what it removed";
  EXPECT_TRUE(sweeper.Audit(false).empty());
  EXPECT_FALSE(std::filesystem::exists(aside_));
}

TEST_F(LeftoverSweeperTest, ItTriesAgainByItselfAndTellsOnce) {
  std::mutex mutex;
  std::vector<std::string> lines;
  LeftoverSweeper sweeper({aside_}, [&](const std::string& line) {
    const std::lock_guard hold(mutex);
    lines.push_back(line);
  });
  ASSERT_TRUE(sweeper.Start(milliseconds(5)));
  SetAside("one");
  EXPECT_TRUE(test_support::Eventually([&] { return !std::filesystem::exists(aside_); }));
  SetAside("two");
  EXPECT_TRUE(test_support::Eventually([&] {
    const std::lock_guard hold(mutex);
    return lines.size() == 2;
  }));
  const std::lock_guard hold(mutex);
  EXPECT_TRUE(lines.at(0).ends_with(": removed")) << lines.at(0);
}

}  // namespace
}  // namespace holdfast::agent
