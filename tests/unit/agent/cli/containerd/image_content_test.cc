// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/containerd/image_content.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "agent/cli/tar_writer.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent::containerd {
namespace {

namespace fs = std::filesystem;

constexpr char kBlobs[] = "/io.containerd.content.v1.content/blobs/sha256";

// A copy of what containerd wrote.
class ImageContentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    top_ = fs::temp_directory_path() / "holdfast-containerd-XXXXXX";
    ASSERT_NE(::mkdtemp(top_.data()), nullptr);
    fs::copy(RECORDED, top_, fs::copy_options::recursive);
    auto root = sys::OpenDir(top_);
    ASSERT_TRUE(root.has_value());
    root_ = std::move(*root);
  }
  void TearDown() override { fs::remove_all(top_); }

  ChosenImage Image(const std::string& name, const std::string& name_space = "k8s.io") {
    const auto images = ReadImagesBelow(root_.get(), name_space);
    EXPECT_TRUE(images.has_value());
    const Choice choice = ChooseImages(*images, {name});
    EXPECT_EQ(choice.images.size(), 1u);
    return choice.images.front();
  }

  // "": it can be had.
  std::string Failure(const ChosenImage& image) {
    const auto files = OpenImageContent(root_.get(), image);
    return files ? "" : files.error().message();
  }

  std::string top_;
  DirFd root_;
};

TEST_F(ImageContentTest, HoldsAnIndexItsImageForThisMachineAndEachLayerOnce) {
  const auto files = OpenImageContent(root_.get(), Image("hello:1"));
  ASSERT_TRUE(files.has_value()) << files.error().message();
  std::set<std::string> names;
  for (const LayoutFile& each : *files) {
    names.insert(each.name.substr(0, 13));
    const auto content = sys::ReadFd(each.file.get(), 100'000);
    ASSERT_TRUE(content.has_value());
    EXPECT_EQ(content->size(), each.size);
  }
  EXPECT_EQ(names, (std::set<std::string>{"oci-layout", "index.json", "blobs/sha256/"}));
  EXPECT_EQ(files->size(), 6u);  // index, manifest, config, layer
  // Three layers, two of them the same; no index.
  EXPECT_EQ(OpenImageContent(root_.get(), Image("registry.example:5000/team/shared:2"))->size(),
            6u);
}

TEST_F(ImageContentTest, SaysWhatContainerdDoesNotHave) {
  EXPECT_EQ(Failure(Image("registry.example/discarded:1")),
            "2 of its 3 layers are not there (discard_unpacked_layers in containerd's "
            "configuration, or a snapshotter that fetches them when needed)");
  EXPECT_EQ(Failure(Image("registry.example/foreign:1")).substr(0, 33),
            "no match for platform in manifest");
  const ChosenImage image = Image("hello:1");
  fs::remove(top_ + kBlobs + "/" + image.target.digest.substr(7));
  EXPECT_EQ(Failure(image), "its index " + image.target.digest + " is not there");
}

TEST_F(ImageContentTest, BelievesNeitherNamesNorSizesNorLinks) {
  ChosenImage image = Image("hello:1");
  const ChosenImage whole = image;
  for (const char* digest : {"", "sha256:..", "sha512:aa", "sha256:../../../../etc/passwd"}) {
    image.target.digest = digest;
    EXPECT_NE(Failure(image), "") << digest;
  }
  image = whole;
  image.target.size = 5;
  EXPECT_NE(Failure(image).find("that it is said to have"), std::string::npos);
  image.target.size = uint64_t{5} << 20;
  EXPECT_NE(Failure(image).find("which is too much"), std::string::npos);
  image = whole;
  image.target.media_type = "application/vnd.docker.distribution.manifest.v1+json";
  EXPECT_NE(Failure(image), "");

  const std::string blob = top_ + kBlobs + "/" + whole.target.digest.substr(7);
  fs::rename(blob, blob + "0");
  fs::create_symlink(fs::path(blob + "0").filename(), blob);
  EXPECT_NE(Failure(whole).find("symbolic link"), std::string::npos) << Failure(whole);
  fs::remove(blob);
  fs::create_directory(blob);
  EXPECT_NE(Failure(whole).find("no regular file"), std::string::npos);
  fs::remove(blob);
  fs::rename(blob + "0", blob);
  EXPECT_EQ(Failure(whole), "");
  fs::rename(top_ + kBlobs, top_ + "/elsewhere");
  fs::create_directory_symlink(top_ + "/elsewhere", top_ + kBlobs);
  EXPECT_NE(Failure(whole).find("symbolic link"), std::string::npos) << Failure(whole);
}

}  // namespace
}  // namespace holdfast::agent::containerd
