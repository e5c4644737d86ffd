// SPDX-License-Identifier: Apache-2.0
// The collector over a store that is only numbers: what goes, what is told.
#include "agent/image_gc/image_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "holdfast/base/strings.h"
#include "tests/support/eventually.h"

namespace holdfast::agent {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kMiB = 1 << 20;

class SetClock : public Clock {
 public:
  BootTime Boot() const override { return {}; }
  WallTime Wall() const override { return now; }
  WallTime now{hours(24 * 365 * 50)};
};

// A disk of 1000 MiB with images of one part each. Thread-safe.
class NumbersStore : public ImageStore, public ImageSpace {
 public:
  void Add(const std::string& id, uint64_t bytes, WallTime detected, WallTime used = {}) {
    const std::lock_guard lock(mutex_);
    ImageUsage usage;
    usage.image.id = Digest(id);
    usage.image.repo_tags = {id};
    usage.detected = detected;
    usage.used = used;
    usage.parts = {{id, bytes}};
    images_[usage.image.id] = usage;
  }
  std::vector<std::string> Ids() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> ids;
    for (const auto& [id, usage] : images_) ids.push_back(id.value);
    return ids;
  }
  WallTime UsedAt(const std::string& id) {
    const std::lock_guard lock(mutex_);
    return images_.at(Digest(id)).used;
  }

  Result<Image> Get(const std::string& id) override { return NotFound(id); }
  Result<std::vector<Image>> List() override { return std::vector<Image>(); }
  Result<std::vector<Image>> Import(int, const ImportOptions&) override { return Unsupported(""); }
  Result<std::vector<Image>> ImportDirectory(int, const ImportOptions&) override {
    return Unsupported("");
  }
  Result<void> Export(const std::string&, int) override { return Unsupported(""); }
  Result<void> Tag(const std::string&, const std::string&) override { return Unsupported(""); }
  Result<void> Remove(const std::string& id) override {
    const std::lock_guard lock(mutex_);
    if (refused.contains(id)) return Error(refused.at(id), "image " + id + ": refused");
    images_.erase(Digest(id));
    return {};
  }
  Result<std::vector<ImageUsage>> Usage(Parts parts) override {
    const std::lock_guard lock(mutex_);
    std::vector<ImageUsage> all;
    for (const auto& [id, usage] : images_) {
      all.push_back(usage);
      if (parts == Parts::kNone) all.back().parts.clear();
    }
    return all;
  }
  Result<ImageDisk> Disk() override {
    const std::lock_guard lock(mutex_);
    uint64_t used = other + partial;
    for (const auto& [id, usage] : images_) used += usage.parts.begin()->second;
    return ImageDisk{capacity, capacity - std::min(used, capacity), 0, 0};
  }
  Result<void> NoteUse(const std::vector<Digest>& ids, WallTime now) override {
    const std::lock_guard lock(mutex_);
    for (const Digest& id : ids) images_.at(id).used = now;
    return {};
  }
  Result<PartialContent> Partial() override { return PartialContent{1, partial}; }
  Result<PartialContent> RemovePartial(seconds age) override {
    if (age > partial_age) return PartialContent();
    return PartialContent{1, std::exchange(partial, 0)};
  }

  uint64_t capacity = 1000 * kMiB;
  uint64_t other = 0;  // of the disk's bytes that are no image's
  uint64_t partial = 0;
  seconds partial_age{0};
  std::map<std::string, Code> refused;

 private:
  std::mutex mutex_;
  std::map<Digest, ImageUsage> images_;
};

class NodeEvents : public EventSink {
 public:
  void AddEvent(const EventSubject& subject, const EventNote& note) override {
    EXPECT_EQ(subject.kind + "/" + subject.name, "Node/n1");
    EXPECT_TRUE(note.warning);
    told.push_back(note.reason + ": " + note.message);
  }
  std::vector<std::string> told;
};

class ImageCollectorTest : public testing::Test {
 protected:
  WallTime Ago(std::chrono::nanoseconds time) const { return {clock_.now.since_epoch - time}; }

  SetClock clock_;
  NumbersStore store_;
  NodeEvents events_;
  std::set<std::string> needed_;
  ImageGcConfig config_;
  std::unique_ptr<ImageCollector> made_;
  ImageCollector& Collector() {
    if (!made_) {
      made_ = std::make_unique<ImageCollector>(ImageCollectorParts{
          store_, store_,
          [this] {
            return
                [needed = needed_](const Image& image) { return needed.contains(image.id.value); };
          },
          events_, clock_, "n1", config_, [](const std::string&) {}});
    }
    return *made_;
  }
};

TEST_F(ImageCollectorTest, MakesRoomInOrderAndNoMoreThanNeeded) {
  store_.other = 400 * kMiB;
  store_.Add("a", 200 * kMiB, Ago(hours(9)), Ago(hours(3)));
  store_.Add("b", 200 * kMiB, Ago(hours(9)), Ago(hours(4)));
  store_.Add("c", 100 * kMiB, Ago(hours(9)), Ago(hours(9)));
  needed_ = {"c"};
  Collector().Collect();  // 900 of 1000 are used, 100 are to go
  EXPECT_THAT(store_.Ids(), ElementsAre("a", "c"));
  EXPECT_EQ(Collector().Collected(ImageCollector::Reason::kSpace), 1u);
  EXPECT_EQ(store_.UsedAt("c"), clock_.now);
  Collector().Collect();
  EXPECT_THAT(store_.Ids(), ElementsAre("a", "c"));
  EXPECT_THAT(events_.told, IsEmpty());
}

TEST_F(ImageCollectorTest, WhatUnfinishedPullsLeftGoesBeforeImages) {
  store_.other = 700 * kMiB;
  store_.partial = 100 * kMiB;
  store_.partial_age = seconds(600);
  store_.Add("a", 100 * kMiB, Ago(hours(9)));
  Collector().Collect();
  EXPECT_EQ(store_.partial, 0u);
  EXPECT_THAT(store_.Ids(), ElementsAre("a"));
}

TEST_F(ImageCollectorTest, TooLittleToFreeIsToldAsAKubeletDoes) {
  store_.other = 900 * kMiB;
  store_.Add("a", 10 * kMiB, Ago(hours(9)));
  store_.Add("young", 10 * kMiB, Ago(seconds(10)));
  Collector().Collect();
  EXPECT_THAT(store_.Ids(), ElementsAre("young"));
  const std::string text =
      StrCat("Failed to garbage collect required amount of images. Attempted to free ", 120 * kMiB,
             " bytes, but only found ", 10 * kMiB, " bytes eligible to free.");
  EXPECT_THAT(events_.told, ElementsAre("FreeDiskSpaceFailed: " + text));
  Collector().Collect();
  ASSERT_EQ(events_.told.size(), 3u) << "the second failure in a row";
  EXPECT_THAT(events_.told.back(), HasSubstr("ImageGCFailed: Failed to garbage collect"));
}

TEST_F(ImageCollectorTest, WhatCameIntoUseStaysAndIsNoError) {
  store_.other = 800 * kMiB;
  store_.Add("a", 60 * kMiB, Ago(hours(9)));
  store_.Add("b", 60 * kMiB, Ago(hours(8)));
  store_.refused = {{"a", Code::kConflict}};
  Collector().Collect();
  EXPECT_THAT(store_.Ids(), ElementsAre("a"));
  EXPECT_THAT(events_.told, ElementsAre(HasSubstr("FreeDiskSpaceFailed")));
}

TEST_F(ImageCollectorTest, AnErrorOfARemovalIsToldAndTheNextImageGoes) {
  store_.other = 800 * kMiB;
  store_.Add("a", 60 * kMiB, Ago(hours(9)));
  store_.Add("b", 60 * kMiB, Ago(hours(8)));
  store_.refused = {{"a", Code::kInternal}};
  Collector().Collect();
  Collector().Collect();
  EXPECT_THAT(store_.Ids(), ElementsAre("a"));
  ASSERT_FALSE(events_.told.empty());
  EXPECT_THAT(events_.told.back(), HasSubstr("ImageGCFailed: "));
}

TEST_F(ImageCollectorTest, ADiskWithoutACapacityIsTold) {
  store_.capacity = 0;
  Collector().Collect();
  EXPECT_THAT(events_.told,
              ElementsAre("InvalidDiskCapacity: invalid capacity 0 on image filesystem"));
}

TEST_F(ImageCollectorTest, OldImagesGoWithRoomToSpare) {
  config_.maximum_age = hours(24);
  store_.Add("old", kMiB, Ago(hours(99)), Ago(hours(25)));
  store_.Add("new", kMiB, Ago(hours(99)), Ago(hours(23)));
  store_.Add("needed", kMiB, Ago(hours(99)));
  needed_ = {"needed"};
  Collector().Collect();
  EXPECT_THAT(store_.Ids(), ElementsAre("needed", "new"));
  EXPECT_EQ(Collector().Collected(ImageCollector::Reason::kAge), 1u);
  EXPECT_EQ(Collector().Collected(ImageCollector::Reason::kSpace), 0u);
}

TEST_F(ImageCollectorTest, PrunesWhatAPersonAsksFor) {
  store_.partial = 5;
  store_.Add("idle", 10, Ago(seconds(1)));
  store_.Add("needed", 10, Ago(hours(9)));
  needed_ = {"needed"};
  auto pruned = Collector().Prune({});
  ASSERT_TRUE(pruned);
  EXPECT_TRUE(pruned->images.empty()) << "both have a name";
  EXPECT_EQ(pruned->bytes, 5u);
  pruned = Collector().Prune({.all = true, .until = {}});
  ASSERT_EQ(pruned->images.size(), 1u);
  EXPECT_EQ(pruned->images.front().repo_tags, std::vector<std::string>{"idle"});
  EXPECT_EQ(pruned->bytes, 10u);
  EXPECT_THAT(store_.Ids(), ElementsAre("needed"));
}

class FullPuller : public ImagePuller {
 public:
  explicit FullPuller(std::function<bool()> fits) : fits_(std::move(fits)) {}
  Result<PulledImage> Pull(const PullRequest&, const std::atomic<bool>&) override {
    ++pulls;
    if (fits_()) return PulledImage();
    return Error(Code::kResourceExhausted, ENOSPC, "no room for images");
  }
  int pulls = 0;

 private:
  const std::function<bool()> fits_;
};

TEST_F(ImageCollectorTest, APullThatFindsNoRoomIsTriedAgainWhenRoomCouldBeMade) {
  store_.other = 500 * kMiB;
  for (const char* id : {"a", "b", "c"}) store_.Add(id, 130 * kMiB, Ago(hours(9)));
  std::atomic<bool> cancelled = false;
  const auto pull = [&](uint64_t bytes) {
    FullPuller puller([&] { return store_.Disk()->available >= bytes; });
    RoomMakingPuller patient(puller, [this] { return Collector().MakeRoom(); });
    const bool pulled = patient.Pull({}, cancelled).has_value();
    return std::pair(pulled, puller.pulls);
  };
  EXPECT_EQ(pull(50 * kMiB), std::pair(true, 1));
  EXPECT_EQ(store_.Ids().size(), 3u);
  EXPECT_EQ(pull(200 * kMiB), std::pair(true, 2)) << "down to the low threshold is enough";
  EXPECT_EQ(store_.Ids().size(), 2u);
  EXPECT_EQ(pull(400 * kMiB), std::pair(true, 2)) << "then everything that nothing needs";
  EXPECT_EQ(store_.Ids().size(), 0u);
  EXPECT_EQ(pull(900 * kMiB), std::pair(false, 1)) << "nothing is left to go";
}

TEST_F(ImageCollectorTest, LooksAgainAndAgain) {
  config_.maximum_age = hours(24);
  store_.Add("old", kMiB, Ago(hours(99)));
  ASSERT_TRUE(Collector().Start(std::chrono::milliseconds(5)));
  EXPECT_TRUE(test_support::Eventually([&] { return store_.Ids().empty(); }));
  store_.Add("older", kMiB, Ago(hours(999)));
  EXPECT_TRUE(test_support::Eventually([&] { return store_.Ids().empty(); }));
}

}  // namespace
}  // namespace holdfast::agent
