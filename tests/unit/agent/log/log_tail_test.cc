// SPDX-License-Identifier: Apache-2.0
#include "agent/log/log_tail.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

const std::string kStamp = "2026-11-21T07:19:36.012345678Z ";

class LogTailTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(directory_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string TailOf(const std::string& content) const {
    std::ofstream(directory_ + "/0.log") << content;
    return Tail();
  }
  std::string Tail() const {
    const auto dir = sys::OpenDir(directory_);
    return dir ? ReadLogTail(dir->get(), "0.log") : "no directory";
  }
  std::string directory_ = testing::TempDir() + "log-tail-XXXXXX";
};

TEST_F(LogTailTest, IsTheTextOfBothStreamsInOrder) {
  EXPECT_EQ(
      TailOf(kStamp + "stdout F one\n" + kStamp + "stderr F two  three\n" + kStamp + "stdout F \n"),
      "one\ntwo  three\n\n");
}

TEST_F(LogTailTest, PartsOfALineAreOneAndTagsMayFollow) {
  EXPECT_EQ(
      TailOf(kStamp + "stdout P:x on\n" + kStamp + "stdout F:y e\n" + kStamp + "stdout P the end"),
      "one\nthe end");
}

TEST_F(LogTailTest, WhatIsNoLineOfALogIsPassedOver) {
  EXPECT_EQ(TailOf("stdout F without a time\n\n" + kStamp + "stdin F nobody's\n" + kStamp +
                   "stdout X tag\n" + kStamp + "stdout\n" + kStamp + "stdout F good\n"),
            "good\n");
}

TEST_F(LogTailTest, OfALongLogOnlyWholeLinesOfItsEnd) {
  std::string log;
  for (int i = 0; i < 1000; ++i) log += kStamp + "stdout F line " + std::to_string(i) + "\n";
  const std::string tail = TailOf(log);
  EXPECT_TRUE(tail.starts_with("line ")) << tail.substr(0, 20);
  EXPECT_TRUE(tail.ends_with("line 998\nline 999\n"));
  EXPECT_GT(tail.size(), 2048u) << "as much as a termination message may take";
  EXPECT_LT(tail.size(), 16u * 1024);
}

TEST_F(LogTailTest, NothingWhereThereIsNoLog) {
  EXPECT_EQ(Tail(), "");
  std::filesystem::create_symlink("/etc/passwd", directory_ + "/0.log");
  EXPECT_EQ(Tail(), "") << "something else in its place";
}

}  // namespace
}  // namespace holdfast::agent
