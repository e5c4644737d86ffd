// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/exit_events.h"

#include <gtest/gtest.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>

#include <cstring>
#include <string>

namespace holdfast::runtime::keeper {
namespace {

std::string Datagram(uint32_t index, uint32_t what, const ExitEvent& exit) {
  nlmsghdr header{};
  cn_msg message{};
  message.id = {index, CN_VAL_PROC};
  proc_event event{};
  std::memcpy(&event, &what, sizeof what);
  event.event_data.exit.process_pid = exit.thread;
  event.event_data.exit.process_tgid = exit.process;
  event.event_data.exit.exit_code = static_cast<uint32_t>(exit.status);
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  out.append(reinterpret_cast<const char*>(&message), sizeof message);
  return out.append(reinterpret_cast<const char*>(&event), sizeof event);
}

constexpr uint32_t kFork = 0x00000001;
constexpr uint32_t kExit = 0x80000000;

TEST(ExitEventsTest, OneThreadsEndIsRead) {
  const auto event = ParseExitEvent(Datagram(CN_IDX_PROC, kExit, {101, 100, 7 << 8}));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->thread, 101);
  EXPECT_EQ(event->process, 100);
  EXPECT_EQ(event->status, 7 << 8);
}

TEST(ExitEventsTest, EverythingElseIsNone) {
  const std::string good = Datagram(CN_IDX_PROC, kExit, {100, 100, 0});
  EXPECT_FALSE(ParseExitEvent(Datagram(CN_IDX_PROC, kFork, {100, 100, 0})));
  EXPECT_FALSE(ParseExitEvent(Datagram(CN_IDX_PROC + 1, kExit, {100, 100, 0})));
  for (const size_t size : {size_t{0}, size_t{16}, size_t{36}, size_t{60}}) {
    EXPECT_FALSE(ParseExitEvent(good.substr(0, size))) << size;
  }
}

TEST(ProcessEndTest, AWorkerThatEndedBeforeSaysNothing) {
  ProcessEnd end;
  end.Add({101, 100, 0});
  EXPECT_FALSE(end.status());
  end.Add({100, 100, 9});
  EXPECT_EQ(end.status(), 9);
}

TEST(ProcessEndTest, AfterTheFirstThreadTheLastWordCounts) {
  ProcessEnd end;
  end.Add({100, 100, 0});  // main() left by pthread_exit
  end.Add({101, 100, 3 << 8});
  EXPECT_EQ(end.status(), 3 << 8);
}

}  // namespace
}  // namespace holdfast::runtime::keeper
