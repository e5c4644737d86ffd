// SPDX-License-Identifier: Apache-2.0
#include "agent/image_gc/policy.h"

#include <gtest/gtest.h>

#include "agent/image_gc/usage.h"

namespace holdfast::agent {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr WallTime kNow{hours(24 * 365 * 50)};
constexpr uint64_t kGiB = 1ull << 30;

constexpr std::chrono::nanoseconds kNever = std::chrono::nanoseconds::min();

ImageUsage Usage(const std::string& id, std::chrono::nanoseconds used_ago,
                 std::chrono::nanoseconds here_for) {
  ImageUsage usage;
  usage.image.id = Digest(id);
  usage.image.repo_tags = {id + ":latest"};
  usage.used = used_ago == kNever ? WallTime() : WallTime{kNow.since_epoch - used_ago};
  usage.detected = WallTime{kNow.since_epoch - here_for};
  return usage;
}
bool Nobody(const Image&) { return false; }

std::string Order(const std::vector<ImageUsage>& images,
                  const std::function<bool(const Image&)>& needed = Nobody) {
  std::string ids;
  for (const ImageUsage& usage : EvictionOrder(images, needed, kNow)) ids += usage.image.id.value;
  return ids;
}

TEST(ImageGcPolicyTest, WhoWasNeededLongestAgoGoesFirst) {
  EXPECT_EQ(Order({Usage("a", minutes(1), hours(9)), Usage("b", minutes(3), hours(1)),
                   Usage("c", minutes(2), hours(1))}),
            "bca");
  EXPECT_EQ(Order({Usage("a", kNever, hours(1)), Usage("b", kNever, hours(2)),
                   Usage("c", hours(100), hours(1))}),
            "bac")
      << "what was never needed goes first, the oldest of it";
}

TEST(ImageGcPolicyTest, WhatIsNeededOrPinnedNeverGoes) {
  ImageUsage pinned = Usage("p", kNever, hours(9));
  pinned.image.pinned = true;
  const auto needed = [](const Image& image) { return image.id == Digest("n"); };
  EXPECT_EQ(Order({pinned, Usage("n", kNever, hours(9)), Usage("x", minutes(1), hours(1))}, needed),
            "x");
}

TEST(ImageGcPolicyTest, AClockThatWasSetBackMakesNothingYounger) {
  // By what the clock says now, both were used in the future.
  EXPECT_EQ(Order({Usage("b", -hours(5), hours(1)), Usage("a", -hours(9), hours(2))}), "ab")
      << "they count as used now, and the order is that in which they came";
  EXPECT_TRUE(MayGo(Usage("a", kNever, -hours(9)), ImageGcConfig(), kNow));
  EXPECT_FALSE(MayGo(Usage("a", kNever, -seconds(1)), ImageGcConfig(), kNow))
      << "it came after the clock was read";
}

TEST(ImageGcPolicyTest, NothingGoesForRoomThatIsYoungerThanTheMinimumAge) {
  const ImageGcConfig config;
  EXPECT_FALSE(MayGo(Usage("a", kNever, seconds(119)), config, kNow));
  EXPECT_TRUE(MayGo(Usage("a", kNever, seconds(120)), config, kNow));
}

TEST(ImageGcPolicyTest, TheMaximumAgeCountsFromTheLastUse) {
  ImageGcConfig config;
  EXPECT_FALSE(IsTooOld(Usage("a", kNever, hours(9999)), config, kNow)) << "off by default";
  config.maximum_age = hours(24);
  EXPECT_TRUE(IsTooOld(Usage("a", hours(25), hours(99)), config, kNow));
  EXPECT_FALSE(IsTooOld(Usage("a", hours(23), hours(99)), config, kNow));
  EXPECT_FALSE(IsTooOld(Usage("a", hours(24), hours(99)), config, kNow)) << "longer, not as long";
  EXPECT_TRUE(IsTooOld(Usage("a", kNever, hours(25)), config, kNow));
  EXPECT_FALSE(IsTooOld(Usage("a", kNever, hours(1)), config, kNow));
  EXPECT_FALSE(IsTooOld(Usage("a", -hours(1), hours(99)), config, kNow));
}

TEST(ImageGcPolicyTest, RoomIsMadeFromTheHighThresholdDownToTheLow) {
  const auto wanted = [](uint64_t available, ImageGcConfig config = {}) {
    return BytesToFree({100 * kGiB, available, 0, 0}, config);
  };
  EXPECT_EQ(wanted(16 * kGiB), 0u);
  EXPECT_EQ(wanted(15 * kGiB), 5 * kGiB);
  EXPECT_EQ(wanted(16 * kGiB - 1), 4 * kGiB + 1) << "a kubelet's integers: 15 % are free";
  EXPECT_EQ(wanted(0), 20 * kGiB);
  EXPECT_EQ(wanted(200 * kGiB), 0u) << "more than there can be";
  EXPECT_EQ(wanted(0, {.high_percent = 100, .low_percent = 80}), 0u) << "switched off";
  EXPECT_EQ(wanted(90 * kGiB, {.high_percent = 10, .low_percent = 0}), 10 * kGiB);
  EXPECT_EQ(BytesToFree({}, {}), 0u);
  // Beyond what 64 bits hold a hundred times.
  EXPECT_EQ(BytesToFree({1ull << 62, 0, 0, 0}, {}),
            (1ull << 62) / 100 * 20 + (1ull << 62) % 100 * 20 / 100);
}

TEST(ImageGcPolicyTest, OnlyWhatNoOtherImageHasIsGivenBack) {
  ImageUsage a = Usage("a", kNever, hours(1)), b = Usage("b", kNever, hours(1));
  a.parts = {{"base", 100}, {"a", 10}};
  b.parts = {{"base", 100}, {"b", 1}};
  EXPECT_EQ(BytesOfItsOwn(a, {a, b}), 10u);
  EXPECT_EQ(BytesOfItsOwn(b, {b}), 101u) << "a has gone";
}

TEST(ImageGcPolicyTest, WhatAPersonAsksFor) {
  Image named, nameless;
  named.repo_tags = {"a:1"};
  named.created = nameless.created = WallTime{hours(10)};
  EXPECT_FALSE(IsPruned(named, {}));
  EXPECT_TRUE(IsPruned(nameless, {}));
  EXPECT_TRUE(IsPruned(named, {.all = true, .until = {}}));
  EXPECT_TRUE(IsPruned(named, {.all = true, .until = {hours(11)}}));
  EXPECT_FALSE(IsPruned(named, {.all = true, .until = {hours(10)}}));
  EXPECT_FALSE(IsPruned(nameless, {.all = false, .until = {hours(9)}}));
}

TEST(ImageGcPolicyTest, UsageTellsSharedAndReclaimable) {
  ImageUsage used = Usage("used", minutes(1), hours(1));
  ImageUsage idle = Usage("idle", kNever, hours(1));
  ImageUsage pinned = Usage("pinned", kNever, hours(1));
  used.parts = {{"base", 100}, {"u", 1}};
  idle.parts = {{"base", 100}, {"i", 20}};
  pinned.parts = {{"p", 7}};
  pinned.image.pinned = true;
  const auto needed = [](const Image& image) { return image.id == Digest("used"); };
  const ImagesUsage usage = SummarizeUsage({used, idle, pinned}, needed, {1, 1000});
  EXPECT_EQ(usage.total, 128u);
  EXPECT_EQ(usage.reclaimable, 1020u) << "base stays with what is used";
  EXPECT_EQ(usage.partial, 1000u);
  EXPECT_EQ(usage.images.at(1).size, 120u);
  EXPECT_EQ(usage.images.at(1).shared, 100u);
  EXPECT_TRUE(usage.images.at(0).in_use);
  EXPECT_FALSE(usage.images.at(1).in_use);
}

}  // namespace
}  // namespace holdfast::agent
