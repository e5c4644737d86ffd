// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/state/record.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace holdfast::agent
