// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/state/record.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace holdfast::agent {
namespace {

PodMemory FullMemory() {
  PodMemory m;
  m.start_time = {std::chrono::nanoseconds(1'800'000'000'123'456'789)};
  m.admission = Admission{"OutOfcpu", "no \"place\""};
  m.sandbox_made = m.initialized = m.restarting_all = true;
  m.terminal_phase = "Failed";
  m.terminal_reason = "DeadlineExceeded";
  m.terminal_message = "too long";
  m.disrupted = true;
  m.pod_ips = {"10.88.0.2", "fd00::2"};
  m.allocation = Allocation{{{"app", {{{"cpu", "100m"}}, {{"memory", "1Gi"}}}}}, Amounts{}};
  m.allocations = 3;
  m.pod_amounts = Amounts{{{"cpu", "1"}}, {}};
  m.resize_pending = ResizeNote{"Deferred", "no \"room\"", 4, m.start_time, m.start_time};
  m.resize_in_progress = ResizeNote{"", "", 3, m.start_time, m.start_time};
  m.conditions["Ready"] = {"True", m.start_time};
  m.ending = Ending{Ending::Why::kDeadline, m.start_time, std::chrono::seconds(7), true, {}};
  ContainerMemory& c = m.containers["app"];
  c.attempts = 3;
  c.launch = Launch{2, "docker.io/x:1", "sha256:1", 3, "docker.io/x@sha256:2"};
  c.launch->amounts = Amounts{{{"cpu", "50m"}}, {{"cpu", "1"}}};
  c.launch->volume_images = {{"models", "docker.io/m@sha256:3"}};
  c.current = Current{ContainerId("abc"), 2, m.start_time, UserIds{1, 2, {3, 4}}};
  c.current->post_started = c.current->startup_passed = c.current->ready = true;
  c.current->post_start_error = "hook \"x\"";
  c.current->unhealthy = ProbeKind::kLiveness;
  c.last = Finished{ContainerId("b"), 1,   -1,  9, "Error", "text \xff end", m.start_time,
                    m.start_time,     "i", "id"};
  c.before_last = c.last;
  c.init_done = c.again = true;
  c.restart_back_off = {std::chrono::seconds(40), m.start_time, {}, 3};
  c.image_back_off = {std::chrono::seconds(10), m.start_time, {}, 0};
  c.failure = Failure{"CreateContainerError", "why", {}};
  c.stop = Stop{.begun = m.start_time, .pre_stop_over = true, .signalled_at = m.start_time};
  return m;
}

TEST(RecordTest, ReadsWhatItWrote) {
  PodMemory memory = FullMemory();
  auto read = DecodeRecord(EncodeRecord(memory));
  ASSERT_TRUE(read) << read.error().message();
  // JSON is UTF-8: a byte that is none is replaced.
  memory.containers["app"].last->message = "text \xef\xbf\xbd end";
  memory.containers["app"].before_last = memory.containers["app"].last;
  EXPECT_EQ(*read, memory);
  EXPECT_EQ(*DecodeRecord(EncodeRecord(PodMemory{})), PodMemory{});
}

// Of an agent that ran no probes and no hooks: neither is made up for.
TEST(RecordTest, WhatAnOlderAgentStartedHasStartedAndIsReady) {
  PodMemory memory;
  memory.containers["app"].current = Current{ContainerId("abc"), 2, {}, {}};
  memory.containers["app"].stop = Stop{.signalled_at = {std::chrono::seconds(7)}};
  auto record = nlohmann::json::parse(EncodeRecord(memory));
  auto& app = record["containers"]["app"];
  app["current"].erase("ready");
  app["stop"] = {{"signalledAt", 7'000'000'000}};
  const auto read = DecodeRecord(record.dump());
  ASSERT_TRUE(read) << read.error().message();
  const ContainerMemory& mine = read->containers.at("app");
  EXPECT_TRUE(mine.current->post_started && mine.current->startup_passed && mine.current->ready);
  EXPECT_EQ(mine.stop->begun, mine.stop->signalled_at);
  EXPECT_TRUE(mine.stop->pre_stop_over);
}

TEST(RecordTest, LeavesOutWhatOnlyThisProcessKnows) {
  PodMemory memory;
  memory.active_deadline = {std::chrono::seconds(5)};
  memory.containers["app"].restart_back_off.not_before = {std::chrono::seconds(5)};
  EXPECT_EQ(DecodeRecord(EncodeRecord(memory))->active_deadline, BootTime{});
}

TEST(RecordTest, RefusesDamagedRecordsAndUnknownVersions) {
  EXPECT_FALSE(DecodeRecord(""));
  EXPECT_FALSE(DecodeRecord("{"));
  EXPECT_FALSE(DecodeRecord("[]"));
  EXPECT_FALSE(DecodeRecord(R"({"version": 1})"));
  const auto future = DecodeRecord(R"({"version": 2})");
  ASSERT_FALSE(future);
  EXPECT_EQ(future.error().message(), "record of version 2, this agent knows 1");
  const std::string whole = EncodeRecord(FullMemory());
  for (size_t cut = 0; cut < whole.size(); cut += 7)
    EXPECT_FALSE(DecodeRecord(whole.substr(0, cut)));
}

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-pod-state-XXXXXX";
    instance_.root_dir = ::mkdtemp(pattern);
    pod_.mutable_metadata()->set_uid("u1");
    pod_.mutable_metadata()->set_name("web");
    pod_.mutable_metadata()->set_namespace_("default");
  }
  void TearDown() override { std::filesystem::remove_all(instance_.root_dir); }

  model::Instance instance_;
  corev1::Pod pod_;
};

TEST_F(StoreTest, LoadsWhatWasSavedAndForgetsWhatWasRemoved) {
  PodStateStore store(instance_);
  ASSERT_TRUE(store.SavePod(pod_));
  ASSERT_TRUE(store.SaveRecord(pod_, EncodeRecord(FullMemory())));
  auto loaded = store.LoadAll();
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->pods.size(), 1u);
  EXPECT_EQ(loaded->pods[0].pod->metadata().name(), "web");
  EXPECT_EQ(loaded->pods[0].memory.terminal_phase, "Failed");
  ASSERT_TRUE(store.Remove(pod_));
  ASSERT_TRUE(store.Remove(pod_)) << "absent is success";
  EXPECT_TRUE(store.LoadAll()->pods.empty());
}

TEST_F(StoreTest, WhatMustLastIsThereToBeSynced) {
  PodStateStore store(instance_);
  const auto nothing = store.SyncPod(pod_);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code(), Code::kNotFound);
  ASSERT_TRUE(store.SavePod(pod_));
  EXPECT_TRUE(store.SyncPod(pod_));
  EXPECT_TRUE(store.SaveRecord(pod_, EncodeRecord(FullMemory()), true));
  EXPECT_EQ(store.LoadAll()->pods.size(), 1u);
}

TEST_F(StoreTest, ARemovalThatCannotGoOnKeepsTheRecords) {
  if (::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0) {
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  } else {
    GTEST_SKIP() << "needs root: mounts";
  }
  PodStateStore store(instance_);
  ASSERT_TRUE(store.SavePod(pod_));
  ASSERT_TRUE(store.SaveRecord(pod_, EncodeRecord(FullMemory())));
  const std::string dir = instance_.PodsDir() + "/u1";
  std::filesystem::create_directories(dir + "/volumes/mounted");
  ASSERT_EQ(::mount("tmpfs", (dir + "/volumes").c_str(), "tmpfs", 0, nullptr), 0);
  // Neither removed nor set aside: a mount point cannot be renamed.
  const auto refused = store.Remove(pod_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("something is mounted on it"), std::string::npos)
      << refused.error().message();
  ASSERT_EQ(store.LoadAll()->pods.size(), 1u) << "it goes on at the next start";
  EXPECT_EQ(store.LoadAll()->pods[0].memory.terminal_phase, "Failed");

  ASSERT_EQ(::umount((dir + "/volumes").c_str()), 0);
  ASSERT_EQ(::mount("tmpfs", (dir + "/volumes/mounted").c_str(), "tmpfs", 0, nullptr), 0);
  const auto removed = store.Remove(pod_);
  ASSERT_TRUE(removed) << removed.error().message();
  ASSERT_EQ(removed->size(), 1u);
  EXPECT_NE(removed->at(0).find(instance_.AsideDir()), std::string::npos) << removed->at(0);
  EXPECT_FALSE(std::filesystem::exists(dir));
  for (const auto& entry : std::filesystem::directory_iterator(instance_.AsideDir())) {
    ASSERT_EQ(::umount((entry.path() / "mounted").c_str()), 0);
  }
}

TEST_F(StoreTest, AnEmptyDirectoryIsWhatARemovalThatWasCutShortLeft) {
  PodStateStore store(instance_);
  std::filesystem::create_directories(instance_.PodsDir() + "/u2");
  const auto loaded = store.LoadAll();
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(loaded->problems.empty());
  EXPECT_FALSE(std::filesystem::exists(instance_.PodsDir() + "/u2"));
}

TEST_F(StoreTest, APodWithoutARecordWasJustBegun) {
  PodStateStore store(instance_);
  ASSERT_TRUE(store.SavePod(pod_));
  auto loaded = store.LoadAll();
  ASSERT_EQ(loaded->pods.size(), 1u);
  EXPECT_EQ(loaded->pods[0].memory, PodMemory{});
}

TEST_F(StoreTest, DamagedDirectoriesAreToldAndHurtNobodyElse) {
  PodStateStore store(instance_);
  ASSERT_TRUE(store.SavePod(pod_));
  const std::string other = instance_.PodsDir() + "/u2";
  std::filesystem::create_directory(other);
  std::ofstream(other + "/pod.pb") << "no protobuf";
  auto loaded = store.LoadAll();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->pods.size(), 1u);
  ASSERT_EQ(loaded->problems.size(), 1u);
  EXPECT_EQ(loaded->problems[0], "pod directory u2: u2/pod.pb: damaged");
}

}  // namespace
}  // namespace holdfast::agent
