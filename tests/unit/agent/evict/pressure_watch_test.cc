// SPDX-License-Identifier: Apache-2.0
// A node that is short of something: room is made, one pod goes at a time, and who stays.
#include "agent/evict/pressure_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "tests/fakes/fake_pod_view.h"
#include "tests/unit/agent/evict/pressure_pods.h"

namespace holdfast::agent {
namespace {

namespace core = ::k8s::io::api::core::v1;
using std::chrono::seconds;
using Signal = PressureSignal;
using Texts = std::vector<std::string>;

class SetClock : public Clock {
 public:
  BootTime Boot() const override { return now; }
  WallTime Wall() const override { return {}; }
  BootTime now{std::chrono::hours(1)};
};

class PressureWatchTest : public ::testing::Test {
 protected:
  void Add(const core::Pod& pod, uint64_t working_set) {
    view_.SetPod(pod);
    sample_.pods.push_back(StatsOf(pod.metadata().name(), working_set));
  }
  void End(const std::string& name) {
    core::Pod pod = *view_.FindPod("default", name);
    pod.mutable_status()->set_phase("Failed");
    view_.SetPod(pod);
  }
  PressureWatchParts Parts() {
    return {.config = config_,
            .clock = clock_,
            .pods = view_,
            .rooms = [this] { return rooms_; },
            .sample = [this](bool disk) -> Result<std::shared_ptr<const NodeSample>> {
              counted_disk_ = disk;
              if (!sample_error_.empty()) return Internal(sample_error_);
              return std::make_shared<const NodeSample>(sample_);
            },
            .memory_is_short = [this](bool is_short) { memory_is_short_ = is_short; },
            .make_room =
                [this] {
                  ++rooms_made_;
                  rooms_[Signal::kImageBytes].left += gain_;
                },
            .evict =
                [this](const PodUid& uid, const Eviction& eviction) {
                  evicted_.push_back(StrCat(uid.value, " ", eviction.grace.count(), "s"));
                },
            .tell =
                [this](const EventNote& note) {
                  told_.push_back(StrCat(note.reason, ": ", note.message));
                },
            .log = [this](const std::string& line) { log_.push_back(line); }};
  }
  Texts Evicted() { return std::exchange(evicted_, {}); }

  SetClock clock_;
  FakePodView view_;
  NodeSample sample_;
  std::string sample_error_;
  EvictionConfig config_{.hard = {{Signal::kMemory, {0, 100}}, {Signal::kImageBytes, {10, 0}}}};
  NodeRooms rooms_ = {{Signal::kMemory, {500, 1000}}, {Signal::kImageBytes, {500, 1000}}};
  uint64_t gain_ = 0;
  int rooms_made_ = 0;
  bool counted_disk_ = false;
  std::optional<bool> memory_is_short_;
  Texts evicted_, told_, log_;
};

TEST_F(PressureWatchTest, WithRoomForAllNothingHappens) {
  Add(RunningPod("a"), kMi);
  PressureWatch watch(Parts());
  EXPECT_EQ(watch.Look(), seconds(10));
  EXPECT_EQ(Evicted(), Texts());
  EXPECT_EQ(told_, Texts());
  EXPECT_EQ(rooms_made_, 0);
}

TEST_F(PressureWatchTest, OnePodGoesAndTheNextNotBeforeItHasEnded) {
  Add(RunningPod("small"), 1 * kMi);
  Add(RunningPod("large"), 9 * kMi);
  PressureWatch watch(Parts());
  rooms_[Signal::kMemory].left = 50;
  EXPECT_EQ(watch.Look(), seconds(1));
  EXPECT_EQ(Evicted(), Texts{"large 1s"});
  EXPECT_EQ(told_, Texts{"EvictionThresholdMet: Attempting to reclaim memory"});
  EXPECT_EQ(rooms_made_, 0) << "no image is memory";
  EXPECT_FALSE(counted_disk_);
  for (int i = 0; i < 5; ++i) {
    clock_.now = clock_.now + seconds(1);
    EXPECT_EQ(watch.Look(), seconds(1));
  }
  EXPECT_EQ(Evicted(), Texts()) << "it may be about to free enough";
  End("large");
  rooms_[Signal::kMemory].left = 500;
  EXPECT_EQ(watch.Look(), seconds(10));
  EXPECT_EQ(Evicted(), Texts());
  rooms_[Signal::kMemory].left = 50;
  EXPECT_EQ(watch.Look(), seconds(1));
  EXPECT_EQ(Evicted(), Texts{"small 1s"});
}

TEST_F(PressureWatchTest, EachTimeItSaysWhetherMemoryIsShort) {
  PressureWatch watch(Parts());
  watch.Look();
  EXPECT_EQ(memory_is_short_, false);
  rooms_[Signal::kMemory].left = 50;
  watch.Look();
  EXPECT_EQ(memory_is_short_, true);
  rooms_[Signal::kMemory].left = 500;
  rooms_[Signal::kImageBytes].left = 50;
  watch.Look();
  EXPECT_EQ(memory_is_short_, false) << "something else is";
}

TEST_F(PressureWatchTest, WhoDoesNotEndHoldsUpTheOthersForHalfAMinute) {
  Add(RunningPod("small"), 1 * kMi);
  Add(RunningPod("stuck"), 9 * kMi);
  PressureWatch watch(Parts());
  rooms_[Signal::kMemory].left = 50;
  watch.Look();
  EXPECT_EQ(Evicted(), Texts{"stuck 1s"});
  clock_.now = clock_.now + seconds(29);
  EXPECT_EQ(watch.Look(), seconds(1));
  EXPECT_EQ(Evicted(), Texts());
  clock_.now = clock_.now + seconds(1);
  EXPECT_EQ(watch.Look(), seconds(1));
  EXPECT_EQ(Evicted(), Texts{"small 1s"}) << "not the same again";
}

TEST_F(PressureWatchTest, RoomThatCostsNobodyAnythingIsMadeFirst) {
  Add(RunningPod("a"), kMi);
  PressureWatch watch(Parts());
  rooms_[Signal::kImageBytes].left = 50;
  gain_ = 400;
  EXPECT_EQ(watch.Look(), seconds(10));
  EXPECT_EQ(rooms_made_, 1);
  EXPECT_EQ(Evicted(), Texts());
  rooms_[Signal::kImageBytes].left = 50;
  gain_ = 20;
  EXPECT_EQ(watch.Look(), seconds(1));
  EXPECT_EQ(Evicted(), Texts{"a 1s"}) << "it was not enough";
  EXPECT_TRUE(counted_disk_);
}

TEST_F(PressureWatchTest, CriticalPodsAndThoseThatEndAnywayStay) {
  core::Pod of_a_file = RunningPod("of-a-file");
  (*of_a_file.mutable_metadata()->mutable_annotations())["kubernetes.io/config.source"] = "file";
  Add(of_a_file, 900 * kMi);
  Add(RunningPod("system", "", 2'000'000'000), 800 * kMi);
  core::Pod ending = RunningPod("ending");
  ending.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(1);
  Add(ending, 700 * kMi);
  PressureWatch watch(Parts());
  rooms_[Signal::kMemory].left = 50;
  EXPECT_EQ(watch.Look(), seconds(10));
  EXPECT_EQ(Evicted(), Texts());
  EXPECT_EQ(log_, Texts{"the node lacks memory, and has no pod that it may evict"});
  Add(RunningPod("plain"), kMi);
  EXPECT_EQ(watch.Look(), seconds(1));
  EXPECT_EQ(Evicted(), Texts{"plain 1s"});
}

TEST_F(PressureWatchTest, ASoftThresholdLeavesAPodItsTimeUpToAMost) {
  config_.soft = {{Signal::kMemory, {0, 200}}};
  config_.soft_grace = {{Signal::kMemory, seconds(60)}};
  config_.max_pod_grace = seconds(20);
  const auto graces = [&](std::optional<int64_t> own) {
    core::Pod pod = RunningPod("a");
    if (own) pod.mutable_spec()->set_terminationgraceperiodseconds(*own);
    Add(pod, kMi);
    PressureWatch watch(Parts());
    rooms_[Signal::kMemory].left = 150;
    EXPECT_EQ(watch.Look(), seconds(10));
    EXPECT_EQ(Evicted(), Texts()) << "not for long enough";
    clock_.now = clock_.now + seconds(60);
    watch.Look();
    return Evicted();
  };
  EXPECT_EQ(graces(5), Texts{"a 5s"});
  EXPECT_EQ(graces(30), Texts{"a 20s"});
  EXPECT_EQ(graces({}), Texts{"a 20s"});
  EXPECT_EQ(graces(0), Texts{"a 1s"});
}

TEST_F(PressureWatchTest, NobodyGoesWithoutKnowingWhatPodsHave) {
  Add(RunningPod("a"), kMi);
  sample_error_ = "no cgroups";
  PressureWatch watch(Parts());
  rooms_[Signal::kMemory].left = 50;
  EXPECT_EQ(watch.Look(), seconds(10));
  EXPECT_EQ(Evicted(), Texts());
  EXPECT_EQ(log_, Texts{"no pod is evicted for want of memory, since it is not known what pods "
                        "have: no cgroups"});
}

TEST_F(PressureWatchTest, ItLooksOnAThreadOfItsOwnThatEndsWithIt) {
  PressureWatch watch(Parts());
  ASSERT_TRUE(watch.Start());
}

}  // namespace
}  // namespace holdfast::agent
