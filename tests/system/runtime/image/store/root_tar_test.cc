// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "tests/support/tar_builder.h"
#include "tests/support/text_file.h"
#include "tests/system/runtime/image/store/store_fixture.h"

namespace holdfast::runtime {
namespace {

using test::BuildTar;
using test::Dir;
using test::File;
using test::TarPacking;
using test_support::ReadText;

std::string RootTar(TarPacking packing = TarPacking::kPlain) {
  return BuildTar({Dir("./", 0755), Dir("./bin"), File("./bin/tool", "#!/bin/sh\n", 0755),
                   File("./etc/os-release", "ID=test\n")},
                  packing);
}

ImportOptions Options(const std::string& name) {
  ImportOptions options;
  options.reference = name;
  options.config.emplace();
  options.config->entrypoint = {"/bin/tool"};
  options.config->env = {"PATH=/bin", "GREETING=hello \"you\""};
  options.config->user = "33";
  options.config->working_dir = "/etc";
  return options;
}

TEST_F(StoreTest, RootTarBecomesAnImageOfOneLayer) {
  auto added = Import(RootTar(), Options("tool"));
  ASSERT_TRUE(added) << added.error().message();
  ASSERT_EQ(added->size(), 1u);
  auto image = store_->Get("tool");
  ASSERT_TRUE(image) << image.error().message();
  EXPECT_EQ(image->id, added->at(0).id);
  EXPECT_EQ(image->repo_tags, std::vector<std::string>{"docker.io/library/tool:latest"});
  ASSERT_EQ(image->repo_digests.size(), 1u);
  EXPECT_TRUE(image->repo_digests[0].starts_with("docker.io/library/tool@sha256:"));
  EXPECT_EQ(image->config.entrypoint, std::vector<std::string>{"/bin/tool"});
  EXPECT_EQ(image->config.env[1], "GREETING=hello \"you\"");
  EXPECT_EQ(image->config.user, "33");
  EXPECT_EQ(image->config.working_dir, "/etc");
  EXPECT_EQ(image->os, "linux");
  ASSERT_EQ(image->layers.size(), 1u);
  EXPECT_EQ(ReadText(image->layers[0] + "/etc/os-release"), "ID=test\n");
  EXPECT_TRUE(Names("ingest").empty());
}

TEST_F(StoreTest, SameTarAndConfigGiveTheSameIdAndAddNothing) {
  ASSERT_TRUE(Import(RootTar(), Options("tool")));
  const auto before = store_->Get("tool")->id;
  const auto blobs = Names("blobs/sha256");
  ASSERT_TRUE(Import(RootTar(), Options("tool")));
  EXPECT_EQ(store_->Get("tool")->id, before);
  EXPECT_EQ(Names("blobs/sha256"), blobs);
  EXPECT_EQ(store_->List()->size(), 1u);
}

TEST_F(StoreTest, CompressionIsSeenByContentAndLayersAreShared) {
  ASSERT_TRUE(Import(RootTar(), Options("plain")));
  for (const auto& [name, packing] :
       {std::pair{"gz", TarPacking::kGzip}, std::pair{"zst", TarPacking::kZstd}}) {
    auto added = Import(RootTar(packing), Options(name));
    ASSERT_TRUE(added) << name << ": " << added.error().message();
  }
  EXPECT_EQ(store_->Get("gz")->layers, store_->Get("plain")->layers);
  EXPECT_EQ(store_->Get("zst")->layers, store_->Get("plain")->layers);
  EXPECT_EQ(Names("layers").size(), 1u);
}

TEST_F(StoreTest, SurvivesReopening) {
  ASSERT_TRUE(Import(RootTar(), Options("tool:1")));
  const Image before = store_->Get("tool:1").value();
  Reopen();
  auto after = store_->Get("tool:1");
  ASSERT_TRUE(after) << after.error().message();
  EXPECT_EQ(after->id, before.id);
  EXPECT_EQ(after->layers, before.layers);
  EXPECT_EQ(after->config.env, before.config.env);
  EXPECT_EQ(after->size_bytes, before.size_bytes);
}

TEST_F(StoreTest, FoundByNameDigestIdAndUniquePrefix) {
  ASSERT_TRUE(Import(RootTar(), Options("example.com/a/tool:v1")));
  const Image image = store_->Get("example.com/a/tool:v1").value();
  const std::string hex = image.id.value.substr(7);
  for (const std::string& reference :
       {image.id.value, hex, hex.substr(0, 12), "sha256:" + hex.substr(0, 12),
        image.repo_digests[0],
        std::string("example.com/a/tool:v1@") +
            image.repo_digests[0].substr(image.repo_digests[0].find('@') + 1)}) {
    auto found = store_->Get(reference);
    ASSERT_TRUE(found) << reference << ": " << found.error().message();
    EXPECT_EQ(found->id, image.id);
  }
  EXPECT_EQ(store_->Get("example.com/a/tool").error().code(), Code::kNotFound);
  EXPECT_EQ(store_->Get("Tool").error().message(),
            "couldn't parse image name \"Tool\": invalid reference format: repository name "
            "(library/Tool) must be lowercase");
}

TEST_F(StoreTest, AShortPrefixOfAnIdIsNotEnoughToRemoveAnImage) {
  ASSERT_TRUE(Import(RootTar(), Options("tool")));
  const std::string id = store_->Get("tool")->id.value;
  for (const size_t digits : {2u, 11u}) {
    for (const std::string& text : {id.substr(7, digits), id.substr(0, 7 + digits)}) {
      auto removed = store_->Remove(text);
      ASSERT_FALSE(removed) << text;
      EXPECT_EQ(removed.error().code(), Code::kInvalidArgument) << removed.error().message();
    }
  }
  EXPECT_TRUE(store_->Get("tool"));
  EXPECT_TRUE(store_->Remove(id.substr(7, 12)));
}

TEST_F(StoreTest, AConfigThatNothingCouldStartWithIsRefused) {
  const auto refused = [this](auto change) {
    ImportOptions options = Options("tool");
    change(*options.config);
    auto added = Import(RootTar(), options);
    return added ? "taken" : added.error().message();
  };
  EXPECT_EQ(refused([](ImageConfig& c) { c.env = {"A=1", "BAD"}; }),
            "environment entry \"BAD\": must be NAME=VALUE");
  EXPECT_EQ(refused([](ImageConfig& c) { c.env = {"=x"}; }),
            "environment entry \"=x\": must be NAME=VALUE");
  for (const char* user : {"x y", ":", "a:", ":b", "a:b:c", "a\n"}) {
    EXPECT_NE(refused([&](ImageConfig& c) { c.user = user; }), "taken") << user;
  }
  EXPECT_EQ(refused([](ImageConfig& c) { c.working_dir = "rel"; }),
            "working directory \"rel\": must be an absolute path");
  EXPECT_TRUE(store_->List()->empty());
  for (const char* user : {"", "0", "app", "app:app", "1000:1000"}) {
    EXPECT_EQ(refused([&](ImageConfig& c) { c.user = user; }), "taken") << user;
  }
}

TEST_F(StoreTest, RemoveKeepsContentWhileAnotherNameIsLeft) {
  ASSERT_TRUE(Import(RootTar(), Options("one")));
  ASSERT_TRUE(Import(RootTar(), Options("two")));
  ASSERT_TRUE(store_->Remove("one"));
  EXPECT_EQ(store_->Get("one").error().code(), Code::kNotFound);
  EXPECT_EQ(Names("layers").size(), 1u);
  ASSERT_TRUE(store_->Get("two"));
  ASSERT_TRUE(store_->Remove("two"));
  EXPECT_TRUE(Names("layers").empty());
  EXPECT_TRUE(Names("blobs/sha256").empty());
  EXPECT_TRUE(Names("images").empty());
  EXPECT_TRUE(Names("names").empty());
  EXPECT_TRUE(Names("ingest").empty());
}

TEST_F(StoreTest, RemoveRefusesWhatIsInUse) {
  ASSERT_TRUE(Import(RootTar(), Options("tool")));
  used_ = store_->Get("tool")->id;
  user_ = "container web of pod default/web";
  auto removed = store_->Remove("tool");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code(), Code::kConflict);
  EXPECT_NE(removed.error().message().find("container web of pod default/web"), std::string::npos);
  EXPECT_TRUE(store_->Get("tool"));
}

TEST_F(StoreTest, ANameThatMovesLeavesTheOldImageUnnamed) {
  ASSERT_TRUE(Import(RootTar(), Options("tool")));
  const Digest old = store_->Get("tool")->id;
  ImportOptions other = Options("tool");
  other.config->user = "0";
  ASSERT_TRUE(Import(RootTar(), other));
  EXPECT_NE(store_->Get("tool")->id, old);
  EXPECT_TRUE(store_->Get(old.value)->repo_tags.empty());
  ASSERT_TRUE(store_->Remove(old.value));
  EXPECT_TRUE(store_->Get("tool"));
}

TEST_F(StoreTest, OpenTwiceIsRefused) {
  ImageStoreOptions options;
  options.root = path_ + "/images";
  auto second = DiskImageStore::Open(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kConflict);
}

TEST_F(StoreTest, OpenSweepsWhatACrashLeft) {
  ASSERT_TRUE(Import(RootTar(), Options("tool")));
  std::filesystem::create_directories(path_ + "/images/ingest/left/over");
  std::filesystem::create_directories(path_ + "/images/layers/0123456789abcdef0123456789abcdef/x");
  std::ofstream(path_ + "/images/blobs/sha256/" + std::string(64, 'a')) << "nobody's";
  const size_t layers = 1;
  Reopen();
  EXPECT_TRUE(Names("ingest").empty());
  EXPECT_EQ(Names("layers").size(), layers);
  EXPECT_EQ(Names("blobs/sha256").size(), 3u);
  EXPECT_TRUE(store_->Get("tool"));
}

TEST_F(StoreTest, OpenSetsAsideWhatItCannotRemove) {
  const std::string left = path_ + "/images/ingest/left";
  std::filesystem::create_directories(left + "/mounted");
  ASSERT_EQ(::mount("tmpfs", (left + "/mounted").c_str(), "tmpfs", 0, nullptr), 0);
  Reopen();
  EXPECT_TRUE(Names("ingest").empty());
  const auto aside = std::filesystem::directory_iterator(path_ + "/aside");
  ASSERT_EQ(std::distance(begin(aside), end(aside)), 1);
  EXPECT_TRUE(Import(RootTar(), Options("tool")));
  for (const auto& entry : std::filesystem::directory_iterator(path_ + "/aside")) {
    ASSERT_EQ(::umount((entry.path() / "mounted").c_str()), 0);
  }
}

TEST_F(StoreTest, ADamagedRecordIsReportedAndNothingIsSwept) {
  ASSERT_TRUE(Import(RootTar(), Options("tool")));
  const std::string record = path_ + "/images/images/" + Names("images").at(0);
  std::ofstream(record) << "{\"version\":99}";
  Reopen();
  ASSERT_EQ(store_->warnings().size(), 1u);
  EXPECT_NE(store_->warnings()[0].find("version 99"), std::string::npos) << store_->warnings()[0];
  EXPECT_EQ(Names("layers").size(), 1u);
}

TEST_F(StoreTest, TruncatedAndDamagedTarsChangeNothing) {
  const std::string gz = RootTar(TarPacking::kGzip);
  const std::string zst = RootTar(TarPacking::kZstd);
  std::string flipped = gz;
  flipped[gz.size() - 5] = static_cast<char>(flipped[gz.size() - 5] ^ 0x55);
  for (const std::string& bad :
       {gz.substr(0, gz.size() - 9), zst.substr(0, zst.size() - 3), flipped,
        RootTar().substr(0, 700), std::string("no tar at all, only words")}) {
    auto added = Import(bad, Options("tool"));
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code(), Code::kInvalidArgument) << added.error().message();
  }
  EXPECT_TRUE(Names("blobs/sha256").empty());
  EXPECT_TRUE(Names("layers").empty());
  EXPECT_TRUE(Names("ingest").empty());
  EXPECT_TRUE(store_->List()->empty());
}

}  // namespace
}  // namespace holdfast::runtime
