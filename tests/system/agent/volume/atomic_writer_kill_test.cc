// SPDX-License-Identifier: Apache-2.0
// A writer of volumes that is killed: at every pause point what shows is the old or the new content, whole, and the next
// call leaves nothing else behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "agent/volume/atomic_writer.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "tests/support/killed_process.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;

VolumeFile File(const std::string& text) {
  return {std::make_shared<const std::string>(text), 0644, {}};
}

// Each content says of itself which it is; every other one has files that the one before it has not.
VolumeContent Content(int number) {
  VolumeContent content;
  const std::string text = std::to_string(number);
  content.files = {{"same", File("same")}, {"a", File(text)}, {"dir/b", File(text)}};
  content.files[number % 2 == 0 ? "even/x" : "odd"] = File(text);
  return content;
}

// No test: the process that the tests below start and kill. Writes one content after the other.
TEST(Driver, DISABLED_Writes) {
  const char* directory = std::getenv("VOLUME_DIRECTORY");
  ASSERT_NE(directory, nullptr);
  const auto parent = sys::OpenDir(directory);
  ASSERT_TRUE(parent);
  const int from = std::atoi(std::getenv("VOLUME_FROM"));
  for (int number = from; number < from + 5000; ++number) {
    ASSERT_TRUE(WriteAtomically(parent->get(), "v", Content(number)));
  }
}

class AtomicWriterKillTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "holdfast-kill-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    fs::create_directory(dir_ + "/pauses");
  }
  void TearDown() override { fs::remove_all(dir_); }

  pid_t StartDriver(const std::string& pause_at) {
    return test_support::StartDriver(
        "Driver.DISABLED_Writes",
        {"VOLUME_DIRECTORY=" + dir_, StrCat("VOLUME_FROM=", from_),
         "HOLDFAST_PAUSE_DIR=" + dir_ + "/pauses", "HOLDFAST_PAUSE_AT=" + pause_at});
  }
  std::string Read(const std::string& name) const {
    std::string text;
    std::ifstream(dir_ + "/v/..data/" + name) >> text;
    return text;
  }
  // What shows is one content; then another one is written, and that is all there is.
  void Check() {
    if (fs::exists(dir_ + "/v/..data")) {
      const std::string shown = Read("a");
      ASSERT_FALSE(shown.empty());
      EXPECT_EQ(Read("dir/b"), shown);
      EXPECT_EQ(Read("same"), "same");
      const bool is_even = std::stoi(shown) % 2 == 0;
      EXPECT_EQ(Read(is_even ? "even/x" : "odd"), shown);
      EXPECT_FALSE(fs::exists(dir_ + "/v/..data/" + (is_even ? "odd" : "even")));
    }
    from_ += 5000;
    const auto parent = sys::OpenDir(dir_);
    ASSERT_TRUE(WriteAtomically(parent->get(), "v", Content(from_)));
    const auto names = sys::ListDirAt(AT_FDCWD, dir_ + "/v");
    const std::set<std::string> expected{
        fs::read_symlink(dir_ + "/v/..data"), "..data", "a", "dir", "even", "same"};
    EXPECT_EQ(std::set<std::string>(names->begin(), names->end()), expected);
    std::string text;
    std::ifstream(dir_ + "/v/even/x") >> text;
    EXPECT_EQ(text, std::to_string(from_));
  }

  std::string dir_;
  int from_ = 0;
};

TEST_F(AtomicWriterKillTest, AtEveryPausePoint) {
  for (const char* name :
       {"agent.volume.content_dir_made", "agent.volume.content_begun",
        "agent.volume.content_written", "agent.volume.content_linked", "agent.volume.content_shown",
        "agent.volume.content_visible", "agent.volume.content_tidied"}) {
    for (const int passage : {1, 2, 5}) {
      const std::string point = StrCat(name, ":", passage);
      const pid_t driver = StartDriver(point);
      ASSERT_TRUE(test_support::WaitForStop(driver)) << point;
      test_support::Kill(driver);
      ASSERT_NO_FATAL_FAILURE(Check()) << point;
    }
  }
}

TEST_F(AtomicWriterKillTest, AtRandomMoments) {
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<useconds_t> microseconds(0, 20'000);
  for (int i = 0; i < 60; ++i) {
    const pid_t driver = StartDriver("none");
    ::usleep(20'000 + microseconds(random));
    test_support::Kill(driver);
    ASSERT_NO_FATAL_FAILURE(Check()) << "kill " << i;
  }
}

// Who reads all the time sees one content or the other: at no moment is a file missing or cut short.
TEST_F(AtomicWriterKillTest, WhoReadsSeesWholeContentsOnly) {
  const pid_t driver = StartDriver("none");
  while (!fs::exists(dir_ + "/v/a")) ::usleep(1000);
  int reads = 0;
  std::set<std::string> seen;
  while (test_support::IsRunning(driver) && reads < 20'000) {
    const auto volume = sys::OpenDir(dir_ + "/v");
    ASSERT_TRUE(volume);
    const auto same = sys::ReadFileAt(volume->get(), "same", 100);
    const auto text = sys::ReadFileAt(volume->get(), "a", 100);
    // What is looked up in the moment of the change is in a directory that goes.
    if (!same || !text) continue;
    EXPECT_EQ(*same, "same");
    EXPECT_FALSE(text->empty());
    seen.insert(*text);
    ++reads;
  }
  test_support::Kill(driver);
  EXPECT_GT(seen.size(), 10u);
}

}  // namespace
}  // namespace holdfast::agent
