// SPDX-License-Identifier: Apache-2.0
// What mount(8) is asked, and what is told of it. Programs of the test stand in for it; what is really mounted:
// tests/system/agent/volume, and with servers tests/vm/scenarios/nfs.sh.
#include "agent/volume/nfs_mounter.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

class NfsMounterTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "holdfast-nfs-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    place_ = dir_ + "/pod/v";
    programs_.mount = Program("mount", "printf '%s\\n' \"$@\" > " + dir_ + "/asked");
    programs_.helper = programs_.mount;
    programs_.owner = "nfs " + dir_;
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string Program(const std::string& name, const std::string& text) const {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    fs::permissions(path, fs::perms(0755));
    return path;
  }
  std::string Mount(const NfsSource& source) {
    auto mounter = NfsMounter::Make(programs_);
    EXPECT_TRUE(mounter);
    const auto done = (*mounter)->Mount(source, place_, cancelled_);
    return done ? "" : done.error().message();
  }
  std::string Asked() const {
    std::ifstream file(dir_ + "/asked");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string dir_, place_;
  NfsPrograms programs_;
  std::atomic<bool> cancelled_ = false;
};

TEST_F(NfsMounterTest, OptionsAreSortedAndEachIsThereOnce) {
  (void)Mount({"files", "/exports/a", {"vers=4.1", "ro", "hard"}, true});
  EXPECT_EQ(Asked(), "-t\nnfs\n-o\nhard,ro,vers=4.1\nfiles:/exports/a\n" + place_ + "\n");
  (void)Mount({"fd00::7", "/", {}, false});
  EXPECT_EQ(Asked(), "-t\nnfs\n[fd00::7]:/\n" + place_ + "\n");
}

TEST_F(NfsMounterTest, WhatFailsIsToldAsByAKubeletAndLeavesNothing) {
  programs_.mount = Program("mount", "echo 'mount.nfs: Connection refused' >&2; exit 32");
  EXPECT_EQ(Mount({"files", "/a", {}, true}),
            "mount failed: exit status 32\nMounting command: " + programs_.mount +
                "\nMounting arguments: -t nfs -o ro files:/a " + place_ +
                "\nOutput: mount.nfs: Connection refused\\n");
  EXPECT_FALSE(fs::exists(place_));
}

TEST_F(NfsMounterTest, AProgramThatSaysItMountedAndDidNot) {
  EXPECT_TRUE(Mount({"files", "/a", {}, false}).starts_with("mount failed: nothing is mounted\n"));
  EXPECT_FALSE(fs::exists(place_));
}

TEST_F(NfsMounterTest, AMissingHelperIsToldWithItsPackage) {
  programs_.helper = dir_ + "/mount.nfs";
  EXPECT_EQ(Mount({"files", "/a", {}, false}),
            "mount failed: " + programs_.helper +
                " is not there: install the package nfs-common on this node");
  EXPECT_EQ(Asked(), "");
  EXPECT_FALSE(fs::exists(place_));
}

TEST_F(NfsMounterTest, AServerIsNoOptionOfTheProgram) {
  EXPECT_EQ(Mount({"--bind", "/", {}, false}), "server \"--bind\": no name of a host");
  EXPECT_EQ(Asked(), "");
}

TEST_F(NfsMounterTest, AMountThatHangsEndsWithItsPodItsTimeOrTheAgent) {
  programs_.mount = Program("mount", "sleep 1000");
  const auto since = steady_clock::now();
  std::thread later([this] {
    std::this_thread::sleep_for(milliseconds(300));
    cancelled_ = true;
  });
  EXPECT_TRUE(Mount({"files", "/a", {}, false}).starts_with("mount failed: not wanted any more\n"));
  later.join();
  cancelled_ = false;
  programs_.mounted = milliseconds(300);
  EXPECT_TRUE(Mount({"files", "/a", {}, false}).starts_with("mount failed: no end within 300 ms"));
  programs_.mounted = milliseconds(100'000);
  auto mounter = NfsMounter::Make(programs_);
  ASSERT_TRUE(mounter);
  (*mounter)->Stop();
  EXPECT_FALSE((*mounter)->Mount({"files", "/a", {}, false}, place_, cancelled_));
  EXPECT_LT(steady_clock::now() - since, std::chrono::seconds(60));
}

TEST_F(NfsMounterTest, AServerAnswersOrNot) {
  auto mounter = NfsMounter::Make(programs_);
  ASSERT_TRUE(mounter);
  EXPECT_TRUE((*mounter)->Answers(dir_, cancelled_));
  programs_.stat = Program("stat", "sleep 1000");
  programs_.answered = milliseconds(200);
  mounter = NfsMounter::Make(programs_);
  ASSERT_TRUE(mounter);
  const auto answer = (*mounter)->Answers(dir_, cancelled_);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message(),
            "the NFS server of " + dir_ + " does not answer: no end within 200 ms");
}

}  // namespace
}  // namespace holdfast::agent
