// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/pull_gate.h"

#include <gtest/gtest.h>

#include <thread>

namespace holdfast::runtime {
namespace {

using namespace std::chrono_literals;

struct World {
  explicit World(size_t most) : gate(most) {}
  PullGate gate;
  std::atomic<int> runs = 0, running = 0, most_running = 0;
  std::atomic<bool> hold = true;
  std::atomic<bool> stopped = false;

  Result<PulledImage> Pull(const std::string& name, const std::atomic<bool>& cancelled) {
    return gate.Run({name, {}}, cancelled, {},
                    [&](const PullGate::Stop& stop, const PullGate::Tell&) -> Result<PulledImage> {
                      ++runs;
                      const int now = ++running;
                      most_running = std::max(most_running.load(), now);
                      while (hold && !stop()) std::this_thread::sleep_for(1ms);
                      stopped = stop();
                      --running;
                      if (stopped) return Unavailable("stopped");
                      return PulledImage();
                    });
  }
};

template <class Ready>
void WaitUntil(const Ready& ready) {
  for (int i = 0; i < 5000 && !ready(); ++i) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(ready());
}

TEST(PullGateTest, OneImageIsPulledOnceHoweverManyWantIt) {
  World world(0);
  const std::atomic<bool> never = false;
  std::vector<std::jthread> threads;
  std::atomic<int> got = 0;
  for (int i = 0; i < 5; ++i) {
    threads.emplace_back([&] { got += world.Pull("a", never).has_value() ? 1 : 0; });
  }
  WaitUntil([&] { return world.runs == 1; });
  std::this_thread::sleep_for(50ms);
  world.hold = false;
  threads.clear();
  EXPECT_EQ(got, 5);
  EXPECT_EQ(world.runs, 1);
}

TEST(PullGateTest, NoMoreThanTheLimitAtATime) {
  World world(2);
  world.hold = false;
  const std::atomic<bool> never = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] { EXPECT_TRUE(world.Pull(std::to_string(i), never)); });
  }
  threads.clear();
  EXPECT_EQ(world.runs, 8);
  EXPECT_LE(world.most_running, 2);
}

TEST(PullGateTest, APullGoesOnAsLongAsAnybodyWantsIt) {
  World world(1);
  std::atomic<bool> leader_cancelled = false;
  std::atomic<bool> joiner_cancelled = false;
  std::atomic<bool> joined = false;
  std::jthread leader([&] { (void)world.Pull("a", leader_cancelled); });
  WaitUntil([&] { return world.runs == 1; });
  std::jthread joiner([&] { joined = world.Pull("a", joiner_cancelled).has_value(); });
  std::this_thread::sleep_for(20ms);
  leader_cancelled = true;
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(world.running, 1) << "somebody else still wants it";
  world.hold = false;
  joiner.join();
  EXPECT_TRUE(joined);
}

TEST(PullGateTest, WhoGivesUpDoesNotWait) {
  World world(1);
  std::atomic<bool> never = false;
  std::atomic<bool> cancelled = false;
  std::jthread holder([&] { (void)world.Pull("a", never); });
  WaitUntil([&] { return world.runs == 1; });
  std::jthread waiter([&] { EXPECT_FALSE(world.Pull("b", cancelled)); });
  cancelled = true;
  waiter.join();
  EXPECT_EQ(world.runs, 1) << "it never began";
  never = true;
  holder.join();
  EXPECT_TRUE(world.stopped);
}

}  // namespace
}  // namespace holdfast::runtime
