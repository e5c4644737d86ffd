// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/id_ranges.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace holdfast::runtime {
namespace {

class IdRangesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "holdfast-ids-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    pods_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(pods_); }

  IdRanges Open(IdSpace space = {}) { return IdRanges(pods_, space); }
  uint32_t FirstOf(IdRanges& ranges, const std::string& uid) {
    auto map = ranges.Ensure(PodUid(uid));
    EXPECT_TRUE(map) << (map ? "" : map.error().message());
    return map ? map->front().outside : 0;
  }

  std::string pods_;
};

TEST_F(IdRangesTest, EachPodHasItsOwnAndKeepsIt) {
  IdRanges ranges = Open();
  ASSERT_TRUE(ranges.Adopt());
  const auto map = ranges.Ensure(PodUid("a"));
  ASSERT_TRUE(map);
  ASSERT_EQ(map->size(), 1u);
  EXPECT_EQ(map->front(), (model::IdMapEntry{0, 0x70000000, 65536}));
  EXPECT_EQ(*ranges.Ensure(PodUid("a")), *map);
  EXPECT_EQ(ranges.Find(PodUid("a")), *map);
  EXPECT_EQ(FirstOf(ranges, "b"), 0x70010000u);
  EXPECT_TRUE(ranges.Find(PodUid("c")).empty());
}

TEST_F(IdRangesTest, ARestartedAgentKnowsThem) {
  {
    IdRanges ranges = Open();
    ASSERT_TRUE(ranges.Adopt());
    FirstOf(ranges, "a");
    FirstOf(ranges, "b");
    ASSERT_TRUE(ranges.Free(PodUid("a")));
  }
  std::ifstream file(pods_ + "/b/userns");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(),
            "{\"uidMappings\":[{\"hostId\":1879113728,\"containerId\":0,\"length\":65536}],"
            "\"gidMappings\":[{\"hostId\":1879113728,\"containerId\":0,\"length\":65536}]}\n");
  IdRanges again = Open();
  ASSERT_TRUE(again.Adopt());
  EXPECT_TRUE(again.Find(PodUid("a")).empty());
  EXPECT_EQ(again.Find(PodUid("b")).front().outside, 1879113728u);
  EXPECT_NE(FirstOf(again, "c"), 1879113728u);
}

TEST_F(IdRangesTest, NoneIsGivenTwiceAndAFreedOneComesLast) {
  IdRanges ranges = Open({1u << 20, 3});
  ASSERT_TRUE(ranges.Adopt());
  std::set<uint32_t> given;
  for (const char* uid : {"a", "b", "c"}) given.insert(FirstOf(ranges, uid));
  EXPECT_EQ(given, (std::set<uint32_t>{1u << 20, (1u << 20) + 65536, (1u << 20) + 131072}));
  const auto none = ranges.Ensure(PodUid("d"));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::kResourceExhausted);
  ASSERT_TRUE(ranges.Free(PodUid("b")));
  ASSERT_TRUE(ranges.Free(PodUid("b"))) << "absent is success";
  EXPECT_EQ(FirstOf(ranges, "d"), (1u << 20) + 65536);
}

TEST_F(IdRangesTest, RangesOfAnotherConfigurationStayGiven) {
  {
    IdRanges ranges = Open({(1u << 20) + 4096, 3});
    ASSERT_TRUE(ranges.Adopt());
    FirstOf(ranges, "a");
  }
  IdRanges ranges = Open({1u << 20, 3});
  ASSERT_TRUE(ranges.Adopt());
  EXPECT_EQ(FirstOf(ranges, "b"), (1u << 20) + 131072) << "the first two overlap with what a has";
}

// It once stopped the agent's start, and with it every pod.
TEST_F(IdRangesTest, AFileThatCannotBeReadHoldsUpItsOwnPodOnly) {
  std::filesystem::create_directories(pods_ + "/whole");
  std::ofstream(pods_ + "/whole/userns")
      << "{\"uidMappings\":[{\"hostId\":1879113728,\"containerId\":0,\"length\":65536}],"
         "\"gidMappings\":[{\"hostId\":1879113728,\"containerId\":0,\"length\":65536}]}\n";
  for (const char* text :
       {"", "{}", "nonsense",
        "{\"uidMappings\":[{\"hostId\":65536,\"containerId\":0,\"length\":65536}]}",
        "{\"uidMappings\":[{\"hostId\":0,\"containerId\":0,\"length\":65536}],"
        "\"gidMappings\":[{\"hostId\":0,\"containerId\":0,\"length\":65536}]}"}) {
    std::filesystem::create_directories(pods_ + "/a");
    std::ofstream(pods_ + "/a/userns") << text;
    IdRanges ranges = Open();
    const auto damaged = ranges.Adopt();
    ASSERT_TRUE(damaged) << damaged.error().message();
    ASSERT_EQ(damaged->size(), 1u) << text;
    EXPECT_TRUE(damaged->front().starts_with(pods_ + "/a/userns: ")) << damaged->front();
    EXPECT_EQ(ranges.Find(PodUid("whole")).front().outside, 1879113728u);
    EXPECT_NE(FirstOf(ranges, "new"), 0u);
    const auto refused = ranges.Ensure(PodUid("a"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kConflict);
    EXPECT_TRUE(ranges.Find(PodUid("a")).empty());
    ASSERT_TRUE(ranges.Free(PodUid("a")));
    EXPECT_NE(FirstOf(ranges, "a"), 0u) << "made anew";
    ASSERT_TRUE(ranges.Free(PodUid("a")));
    ASSERT_TRUE(ranges.Free(PodUid("new")));
  }
}

TEST_F(IdRangesTest, WhatAProcessHasIsGivenToNobodyWhileAFileCannotBeRead) {
  // Made in its namespace: unshare() is refused where a sanitizer has given the child a thread.
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  if (child < 0) GTEST_SKIP() << "no user namespace can be made: " << std::strerror(errno);
  const std::string map = "/proc/" + std::to_string(child) + "/uid_map";
  std::ofstream file(map);
  const bool mapped = static_cast<bool>(file << "0 1879048192 65536\n" << std::flush);
  std::filesystem::create_directories(pods_ + "/a");
  std::ofstream(pods_ + "/a/userns") << "nonsense";
  IdRanges ranges = Open();
  ASSERT_TRUE(ranges.Adopt());
  const uint32_t given = FirstOf(ranges, "new");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  if (!mapped) GTEST_SKIP() << "no user namespace with these ids can be made";
  EXPECT_EQ(given, 0x70010000u);
}

}  // namespace
}  // namespace holdfast::runtime
