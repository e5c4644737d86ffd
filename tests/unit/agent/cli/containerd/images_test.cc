// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/containerd/images.h"

#include <gtest/gtest.h>

#include "holdfast/sys/files.h"
#include "tests/support/bolt_file.h"

namespace holdfast::agent::containerd {
namespace {

using namespace test_support;  // NOLINT: its Bolt… functions

ReadAt Reads(std::string file) {
  return [file = std::move(file)](uint64_t offset, size_t size) -> Result<std::string> {
    return offset < file.size() ? file.substr(offset, size) : std::string();
  };
}

std::string Database(const std::vector<BoltEntry>& images, uint64_t transaction = 7) {
  return BoltFile({BoltImagesAt3("k8s.io"), BoltLeafPage(3, images)}, transaction);
}

// Names, or the error.
std::string Names(const ReadAt& read, const std::string& name_space = "k8s.io") {
  const auto images = ReadImages(read, name_space);
  if (!images) return images.error().message();
  std::string names;
  for (const NamedImage& image : *images) names += image.name + " ";
  return names;
}

TEST(ContainerdImagesTest, ReadsWhatContainerdWrote) {
  const auto root = sys::OpenDir(RECORDED);
  ASSERT_TRUE(root.has_value());
  const auto many = ReadImagesBelow(root->get(), "many");
  ASSERT_TRUE(many.has_value()) << many.error().message();
  ASSERT_EQ(many->size(), 300u);
  for (size_t i = 0; i < many->size(); ++i) {
    const std::string number = std::to_string(i);
    EXPECT_EQ((*many)[i].name,
              "registry.example/many/app:" + std::string(4 - number.size(), '0') + number);
    EXPECT_EQ((*many)[i].target, many->front().target);
  }
  EXPECT_EQ(many->front().target.media_type, "application/vnd.oci.image.manifest.v1+json");
  const auto manifest = sys::ReadFileAt(
      root->get(),
      "io.containerd.content.v1.content/blobs/sha256/" + many->front().target.digest.substr(7),
      10'000);
  ASSERT_TRUE(manifest.has_value());
  EXPECT_EQ(manifest->size(), many->front().target.size);
  const auto cri = ReadImagesBelow(root->get(), "k8s.io");
  ASSERT_TRUE(cri.has_value());
  EXPECT_EQ(cri->size(), 15u);
  EXPECT_EQ(cri->front().name, "docker.io/library/hello:1");
}

TEST(ContainerdImagesTest, SaysWhatIsNotThere) {
  const std::string file = Database({BoltImage("a", "d")});
  EXPECT_EQ(Names(Reads(file)), "a ");
  EXPECT_EQ(Names(Reads(file), "x"), "containerd has no namespace \"x\"; there are: k8s.io");
  EXPECT_EQ(Names(Reads(BoltFile({BoltLeafPage(2, {})}))),
            "a database of bbolt, but none of containerd's metadata");
  const std::string unused =
      BoltFile({BoltLeafPage(2, {BoltInlineBucket("v1", {BoltInlineBucket("k8s.io", {})})})});
  EXPECT_EQ(Names(Reads(unused)), "");
}

TEST(ContainerdImagesTest, AnImageThatCannotBeReadIsAnError) {
  EXPECT_EQ(Names(Reads(Database({BoltInlineBucket("a", {})}))), "an image without a target");
  using namespace std::string_literals;  // NOLINT: bytes with zeros
  const std::vector<std::pair<std::string, uint64_t>> sizes = {
      {"\0"s, 0}, {"\x04"s, 2}, {"\xF4\x07"s, 506}, {"\xFE\xFF\xFF\xFF\x0F"s, 2147483647}};
  for (const auto& [bytes, size] : sizes) {
    const auto images = ReadImages(Reads(Database({BoltImage("a", "d", bytes)})), "k8s.io");
    ASSERT_TRUE(images.has_value()) << size;
    EXPECT_EQ(images->front().target, (Target{"d", "type", size}));
  }
  for (const std::string& bytes : {""s, "\x01"s, "\x80"s, std::string(11, '\xFF')}) {
    EXPECT_EQ(Names(Reads(Database({BoltImage("a", "d", bytes)}))),
              "a size that is no whole number");
  }
  EXPECT_EQ(Names(Reads(BoltFile({BoltImagesAt3("k8s.io"),
                                  BoltLeafPage(3, {BoltImage(std::string(4097, 'n'), "d")}, 4)}))),
            "too many images, or a name that is too long");
}

// The first time the page of the images is that of the next transaction already, whose end is seen afterwards.
TEST(ContainerdImagesTest, ReadsAgainWhatChangedMeanwhile) {
  std::string file = Database({BoltImage("before", "d")}, 7);
  const std::string next = Database({BoltImage("after", "d"), BoltImage("more", "d")}, 8);
  int reads = 0;
  const ReadAt read = [&](uint64_t offset, size_t size) -> Result<std::string> {
    std::string bytes = file.substr(offset, size);
    if (offset == 3 * kBoltPage && reads++ == 0) file = next;
    return bytes;
  };
  EXPECT_EQ(Names(read), "after more ");
  EXPECT_EQ(reads, 2);
  // Also where the first time gave an error.
  file = BoltFile({BoltImagesAt3("k8s.io"), "x"}, 7);
  reads = 0;
  EXPECT_EQ(Names(read), "after more ");
}

TEST(ContainerdImagesTest, GivesUpOnADatabaseThatNeverRests) {
  uint64_t transaction = 7;
  const ReadAt read = [&](uint64_t offset, size_t size) -> Result<std::string> {
    const std::string file = Database({BoltImage("a", "d")}, transaction);
    if (offset == 3 * kBoltPage) ++transaction;
    return file.substr(offset, size);
  };
  const auto images = ReadImages(read, "k8s.io");
  ASSERT_FALSE(images.has_value());
  EXPECT_EQ(images.error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace holdfast::agent::containerd
