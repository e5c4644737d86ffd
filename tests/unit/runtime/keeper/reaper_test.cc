// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/reaper.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "holdfast/base/clock.h"
#include "runtime/keeper/common/process_info.h"
#include "tests/support/eventually.h"

namespace holdfast::runtime::keeper {
namespace {

class ReaperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-reaper-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern), nullptr);
    directory_ = pattern;
    auto records = Records::Open(directory_);
    ASSERT_TRUE(records) << records.error().message();
    records_.emplace(std::move(*records));
    reaper_.emplace(*records_, clock_, [this](pid_t, const std::string& id) { told_ = id; });
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // A child that has ended, with a start record that names it.
  StartRecord EndedChild() {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(3);
    siginfo_t info{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
    StartRecord start;
    start.id = "c1";
    start.pid = pid;
    start.start_ticks = StartTicks(pid).value();
    EXPECT_TRUE(records_->WriteStart(start));
    return start;
  }
  void Reap() {
    const auto is_told = [this] {
      reaper_->ReapAll();
      return told_.has_value();
    };
    ASSERT_TRUE(test_support::Eventually(is_told, std::chrono::seconds(5)));
  }

  std::string directory_;
  SystemClock clock_;
  std::optional<Records> records_;
  std::optional<Reaper> reaper_;
  std::optional<std::string> told_;
};

TEST_F(ReaperTest, AChildThatNobodyExpectedIsLookedForInTheRecords) {
  const StartRecord start = EndedChild();
  Reap();
  EXPECT_EQ(*told_, "c1");
}

// What one start costs does not grow with the containers that are there.
TEST_F(ReaperTest, ThatAChildHasNoRecordIsBelieved) {
  const StartRecord start = EndedChild();
  reaper_->ExpectWithoutRecord(start.pid);
  Reap();
  EXPECT_EQ(*told_, "");
  const auto exit = records_->ExitOf(start);
  ASSERT_TRUE(exit);
  EXPECT_FALSE(*exit);
}

TEST_F(ReaperTest, ARecordThatCameLaterCounts) {
  const StartRecord start = EndedChild();
  reaper_->ExpectWithoutRecord(start.pid);
  reaper_->Expect(start);
  Reap();
  EXPECT_EQ(*told_, "c1");
}

}  // namespace
}  // namespace holdfast::runtime::keeper
