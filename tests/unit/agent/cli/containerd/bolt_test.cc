// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/containerd/bolt.h"

#include <gtest/gtest.h>

#include "tests/support/bolt_file.h"

namespace holdfast::agent::containerd {
namespace {

using namespace test_support;  // NOLINT: its Bolt… functions

ReadAt Of(std::string file) {
  return [file = std::move(file)](uint64_t offset, size_t size) -> Result<std::string> {
    return offset < file.size() ? file.substr(offset, size) : std::string();
  };
}

// "key=value" of every entry of the root, "key" of a bucket; else the error.
std::string Listing(const std::string& file) {
  auto bolt = BoltReader::Open(Of(file));
  if (!bolt) return bolt.error().message();
  std::string text;
  const auto read = bolt->ForEach(bolt->root(), [&](const BoltReader::Entry& entry) {
    text += std::string(entry.key) + (entry.is_bucket ? "" : "=" + std::string(entry.value)) + " ";
    return Result<void>();
  });
  return read ? text : read.error().message();
}

TEST(BoltReaderTest, TheLastTransactionIsReadWhicheverPageItIsOn) {
  const auto file = [](uint64_t first, uint64_t second) {
    std::string both = BoltMeta(first, 2, 4);
    both.resize(kBoltPage);
    both += BoltMeta(second, 3, 4);
    both.resize(2 * kBoltPage);
    both += BoltLeafPage(2, {{"on", "first"}});
    both.resize(3 * kBoltPage);
    both += BoltLeafPage(3, {{"on", "second"}});
    both.resize(4 * kBoltPage);
    return both;
  };
  EXPECT_EQ(Listing(file(8, 7)), "on=first ");
  EXPECT_EQ(Listing(file(8, 9)), "on=second ");
  // One that a crash has cut off does not count, not even the first, which says where the second is.
  std::string torn = file(8, 9);
  torn[kBoltPage + 70] ^= 1;
  EXPECT_EQ(Listing(torn), "on=first ");
  torn = file(8, 7);
  torn[70] ^= 1;
  EXPECT_EQ(Listing(torn), "on=second ");
  torn[kBoltPage + 70] ^= 1;
  EXPECT_EQ(Listing(torn), "no database of bbolt, or both of its meta pages are damaged");
  EXPECT_EQ(Listing(""), "no database of bbolt, or both of its meta pages are damaged");
}

TEST(BoltReaderTest, GoesThroughBranchesLongPagesAndBuckets) {
  const std::string value(2 * kBoltPage, 'v');
  const std::string file =
      BoltFile({BoltBranchPage(2, {3, 4}), BoltLeafPage(3, {{"a", "1"}, {"b", ""}}),
                BoltLeafPage(4, {{"c", value}, BoltInlineBucket("d", {{"e", "5"}})}, 2)});
  EXPECT_EQ(Listing(file), "a=1 b= c=" + value + " d ");
  auto bolt = BoltReader::Open(Of(file));
  ASSERT_TRUE(bolt.has_value());
  const auto bucket = bolt->Find(bolt->root(), "d");
  ASSERT_TRUE(bucket.has_value() && bucket->has_value());
  std::string inside;
  ASSERT_TRUE(bolt->ForEach(**bucket, [&](const BoltReader::Entry& entry) {
    inside = entry.value;
    return Result<void>();
  }));
  EXPECT_EQ(inside, "5");
  EXPECT_FALSE(bolt->Find(bolt->root(), "a")->has_value());  // no bucket
  EXPECT_FALSE(bolt->Find(bolt->root(), "x")->has_value());
}

TEST(BoltReaderTest, DamageIsAnError) {
  const auto leaf = [](size_t at, const std::string& bytes) {
    std::string page = BoltLeafPage(2, {{"key", "value"}});
    return BoltFile({page.replace(at, bytes.size(), bytes)});
  };
  const std::string no_end = LittleEndian(~uint32_t{0});
  EXPECT_EQ(Listing(leaf(0, LittleEndian(uint64_t{3}))), "damaged: page 2 is another one");
  EXPECT_EQ(Listing(leaf(8, LittleEndian(uint16_t{16}))),
            "damaged: a page that is neither branch nor leaf");
  EXPECT_EQ(Listing(BoltFile({BoltHead(2, kBoltLeaf, 64)})),
            "damaged: elements behind a page's end");
  EXPECT_EQ(Listing(leaf(12, no_end)), "damaged: page 2 lies behind the last one");
  for (const size_t field : {20, 24, 28}) {
    EXPECT_EQ(Listing(leaf(field, no_end)), "damaged: an entry behind a page's end");
  }
  EXPECT_EQ(Listing(BoltFile({BoltBranchPage(2, {9})})),
            "damaged: page 9 lies behind the last one");
  EXPECT_EQ(Listing(BoltFile({BoltBranchPage(2, {1})})),
            "damaged: page 1 lies behind the last one");
  EXPECT_EQ(Listing(BoltFile({BoltBranchPage(2, {2})})), "damaged: pages are nested too deeply");
  const std::string whole = leaf(0, "");
  EXPECT_EQ(Listing(whole.substr(0, whole.size() - 1)), "damaged: the file ends within page 2");
  EXPECT_EQ(Listing(BoltFile({BoltLeafPage(2, {}, 20'000), std::string(20'000 * kBoltPage, ' ')})),
            "damaged: page 2 is too large");
}

TEST(BoltReaderTest, ABucketThatIsCutOffIsAnError) {
  for (const size_t size : {0, 15, 16, 31}) {
    BoltEntry bucket = BoltInlineBucket("b", {{"key", "value"}});
    bucket.value.resize(size);
    auto bolt = BoltReader::Open(Of(BoltFile({BoltLeafPage(2, {bucket})})));
    ASSERT_TRUE(bolt.has_value());
    const auto found = bolt->Find(bolt->root(), "b");
    EXPECT_EQ(found.has_value(), size >= 16) << size;
    if (!found) continue;
    const auto read = bolt->ForEach(**found, [](const auto&) { return Result<void>(); });
    EXPECT_FALSE(read.has_value()) << size;
  }
}

// Each page leads to the next one often: nothing is nested deeply, and there is no end to it.
TEST(BoltReaderTest, WhatIsReadInAllIsLimited) {
  std::vector<std::string> pages;
  for (uint64_t id = 2; id < 12; ++id) {
    pages.push_back(BoltBranchPage(id, std::vector<uint64_t>(60, id + 1)));
  }
  pages.push_back(BoltLeafPage(12, {}));
  EXPECT_EQ(Listing(BoltFile(pages)), "more than 268435456 bytes to read");
}

TEST(BoltReaderTest, KnowsWhenATransactionHasEnded) {
  std::string file = BoltFile({BoltLeafPage(2, {})}, 7);
  auto bolt = BoltReader::Open([&file](uint64_t offset, size_t size) -> Result<std::string> {
    return file.substr(offset, size);
  });
  ASSERT_TRUE(bolt.has_value());
  EXPECT_TRUE(*bolt->IsStillLast());
  file = BoltFile({BoltLeafPage(2, {})}, 8);
  EXPECT_FALSE(*bolt->IsStillLast());
}

}  // namespace
}  // namespace holdfast::agent::containerd
