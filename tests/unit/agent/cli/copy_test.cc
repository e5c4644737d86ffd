// SPDX-License-Identifier: Apache-2.0
// cp: names, and what tar streams become.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "agent/cli/copy_spec.h"
#include "agent/cli/tar_extract.h"
#include "agent/cli/tar_writer.h"
#include "tests/support/text_file.h"

namespace holdfast::agent::cli {
namespace {

namespace fs = std::filesystem;
using test_support::ReadText;

TEST(CopySpecTest, ReadsKubectlsForms) {
  EXPECT_EQ(*ParseFileSpec("/tmp/x"), (FileSpec{"", "", "/tmp/x"}));
  EXPECT_EQ(*ParseFileSpec("web:/tmp/x"), (FileSpec{"", "web", "/tmp/x"}));
  EXPECT_EQ(*ParseFileSpec("prod/web:x:y"), (FileSpec{"prod", "web", "x:y"}));
  for (const char* wrong : {":/x", "a/b/c:/x", "/web:/x", "ns/:/x"}) {
    EXPECT_FALSE(ParseFileSpec(wrong)) << wrong;
  }
}

TEST(CopySpecTest, KnowsWhatTarCallsAPath) {
  EXPECT_EQ(TarPrefix("/tmp/x/"), "tmp/x");
  EXPECT_EQ(TarPrefix("../../x"), "x");
  EXPECT_EQ(TarPrefix("a/../../b"), "b");
  EXPECT_EQ(TarPrefix("."), "");
  EXPECT_EQ(TarPrefix("/"), "");
  EXPECT_EQ(CleanRemotePath("/a//b/./c/../"), "/a/b");
}

class TarExtractTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "holdfast-copy-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
  }
  void TearDown() override { fs::remove_all(top_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(top_ + "/" + path).parent_path());
    std::ofstream(top_ + "/" + path) << text;
  }
  std::string Pack(const std::string& path, const std::string& name) {
    std::string tar;
    const auto written = WriteTarAs(top_ + "/" + path, name, [&](std::string_view bytes) {
      tar += bytes;
      return true;
    });
    EXPECT_TRUE(written) << written.error().message();
    return tar;
  }
  // In pieces, as it comes over a network.
  Result<void> Extract(const std::string& tar, const std::string& prefix,
                       const std::string& destination) {
    warnings_.clear();
    std::string_view left = tar;
    return ExtractTar(
        [&]() -> Result<std::string_view> {
          const std::string_view piece = left.substr(0, 700);
          left.remove_prefix(piece.size());
          return piece;
        },
        {prefix, top_ + "/" + destination,
         [this](const std::string& line) { warnings_.push_back(line); }});
  }

  std::string top_;
  std::vector<std::string> warnings_;
};

TEST_F(TarExtractTest, TakesWhatTheWriterWrote) {
  const std::string deep = "from/" + std::string(120, 'd') + "/" + std::string(120, 'f');
  Write(deep, std::string(100'000, 'x'));
  Write("from/a name", "text");
  fs::create_directory(top_ + "/from/empty");
  fs::create_symlink("/etc/passwd", top_ + "/from/link");
  const auto done = Extract(Pack("from", "from"), "from", "to");
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(ReadText(top_ + "/to" + deep.substr(4)), std::string(100'000, 'x'));
  EXPECT_EQ(ReadText(top_ + "/to/a name"), "text");
  EXPECT_TRUE(fs::is_directory(top_ + "/to/empty"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(top_ + "/to/link")));
  EXPECT_EQ(warnings_, std::vector<std::string>{"warning: skipping symlink: \"" + top_ +
                                                "/to/link\" -> \"/etc/passwd\""});
}

TEST_F(TarExtractTest, AFileGoesToItsNameOrIntoADirectory) {
  Write("f", "new");
  const std::string tar = Pack("f", "etc/f");
  ASSERT_TRUE(Extract(tar, "etc/f", "there/g"));
  EXPECT_EQ(ReadText(top_ + "/there/g"), "new");
  ASSERT_TRUE(Extract(tar, "etc/f", "there"));
  EXPECT_EQ(ReadText(top_ + "/there/f"), "new");
  Write("there/f", "much longer than before");
  ASSERT_TRUE(Extract(tar, "etc/f", "there"));
  EXPECT_EQ(ReadText(top_ + "/there/f"), "new");
}

TEST_F(TarExtractTest, NamesThatLeadOutAreLeftOut) {
  Write("f", "evil");
  for (const char* name : {"data/../../out", "data/../out", "data/a/../../../out"}) {
    ASSERT_TRUE(Extract(Pack("f", name), "data", "to")) << name;
    ASSERT_EQ(warnings_.size(), 1u) << name;
    EXPECT_NE(warnings_[0].find("is outside target destination, skipping"), std::string::npos);
  }
  for (const char* name : {"/data/out", "database/out", "data2", "other"}) {
    const auto done = Extract(Pack("f", name), "data", "to");
    ASSERT_FALSE(done) << name;
    EXPECT_EQ(done.error().message(), "tar contents corrupted") << name;
  }
  EXPECT_FALSE(Extract(Pack("f", "/abs"), "", "to"));
  for (const char* path : {"/out", "/to/out", "/data", "/abs"}) {
    EXPECT_FALSE(fs::exists(top_ + path)) << path;
  }
}

TEST_F(TarExtractTest, LinksOfTheDestinationDoNotLeadOutEither) {
  Write("f", "evil");
  Write("outside/kept", "kept");
  fs::create_directory(top_ + "/to");
  fs::create_symlink(top_ + "/outside", top_ + "/to/d");
  fs::create_symlink(top_ + "/outside/kept", top_ + "/to/f");
  EXPECT_FALSE(Extract(Pack("f", "data/d/new"), "data", "to"));
  EXPECT_FALSE(Extract(Pack("f", "data/f"), "data", "to"));
  EXPECT_FALSE(fs::exists(top_ + "/outside/new"));
  EXPECT_EQ(ReadText(top_ + "/outside/kept"), "kept");
}

TEST_F(TarExtractTest, APipeThatIsThereIsRefusedAtOnce) {
  Write("f", "text");
  fs::create_directory(top_ + "/to");
  ASSERT_EQ(::mkfifo((top_ + "/to/f").c_str(), 0600), 0);
  EXPECT_FALSE(Extract(Pack("f", "data/f"), "data", "to"));
}

TEST_F(TarExtractTest, WhatIsNoTarIsSaid) {
  const auto done = Extract(std::string(5000, 'x'), "data", "to");
  ASSERT_FALSE(done);
  EXPECT_TRUE(done.error().message().starts_with("tar contents corrupted: "))
      << done.error().message();
  EXPECT_TRUE(Extract("", "data", "to"));  // nothing was sent: tar told why on its stderr
}

}  // namespace
}  // namespace holdfast::agent::cli
