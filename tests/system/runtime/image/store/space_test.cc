// SPDX-License-Identifier: Apache-2.0
// Room and names: what images take, what goes while others work, what stays known over a restart.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <future>

#include "holdfast/base/strings.h"
#include "runtime/image/content/digest.h"
#include "tests/support/tar_builder.h"
#include "tests/system/runtime/image/store/archive_builder.h"
#include "tests/system/runtime/image/store/store_fixture.h"

namespace holdfast::runtime {
namespace {

using test::BuildTar;
using test::Dir;
using test::File;

class SpaceTest : public StoreTest {
 protected:
  // "one:1" of the layers a and b, "two:1" of a and c.
  void SetUp() override {
    StoreTest::SetUp();
    if (path_.empty()) return;
    LayoutBuilder layout;
    const std::string base = BuildTar({Dir("etc"), File("etc/a", std::string(100'000, 'a'))});
    const std::string one = layout.AddImage({base, BuildTar({File("b", "b")})}, "/one");
    const std::string two = layout.AddImage({base, BuildTar({File("c", "c")})}, "/two");
    ASSERT_TRUE(Import(
        layout.Tar(layout.Index(DescriptorText(kOciManifestType, one, layout.Named("one:1")) + "," +
                                DescriptorText(kOciManifestType, two, layout.Named("two:1"))))));
  }
  ImageUsage UsageOf(const std::string& name) {
    const Digest id = store_->Get(name)->id;
    const auto all = store_->Usage(ImageSpace::Parts::kCounted).value();
    return *std::ranges::find_if(all, [&](const ImageUsage& one) { return one.image.id == id; });
  }
};

TEST_F(SpaceTest, PartsAreCountedAndShared) {
  const ImageUsage one = UsageOf("one:1"), two = UsageOf("two:1");
  EXPECT_EQ(one.parts.size(), 6u) << "manifest, config, two blobs, two layers";
  size_t shared = 0;
  uint64_t bytes = 0;
  for (const auto& [part, size] : one.parts) {
    shared += two.parts.contains(part) ? 1 : 0;
    bytes += two.parts.contains(part) ? size : 0;
  }
  EXPECT_EQ(shared, 2u) << "the base, as it came and unpacked";
  EXPECT_GT(bytes, 200'000u);
  const auto none = store_->Usage(ImageSpace::Parts::kNone).value();
  EXPECT_TRUE(none.front().parts.empty());
  // To the byte what its removal gives back, as files.
  uint64_t unique = 0;
  for (const auto& [part, size] : one.parts) unique += two.parts.contains(part) ? 0 : size;
  const auto total = [this] {
    uint64_t sum = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_ + "/images")) {
      struct stat st{};
      if (::lstat(entry.path().c_str(), &st) != 0) continue;
      const bool layer = entry.path().string().find("/layers/") != std::string::npos;
      const bool blob = entry.path().string().find("/sha256/") != std::string::npos;
      const bool top = entry.path().parent_path().filename() == "layers";
      if (blob) sum += static_cast<uint64_t>(st.st_size);
      if (layer && !top) sum += static_cast<uint64_t>(st.st_blocks) * 512;
    }
    return sum;
  };
  const uint64_t before = total();
  ASSERT_TRUE(store_->Remove("one:1"));
  EXPECT_EQ(before - total(), unique);
}

TEST_F(SpaceTest, TheFilesOfAnArtifactAreCountedOnce) {
  const std::string model(1 << 20, 'm');
  LayoutBuilder layout;
  std::string entries;
  for (const std::string name : {"a", "b"}) {
    const std::string config = layout.Add("{}");
    const std::string blob = DescriptorText(
        "application/x", layout.Add(model),
        StrCat(",\"annotations\":{\"org.opencontainers.image.title\":\"", name, "\"}"));
    const std::string manifest = layout.Add(StrCat(
        "{\"schemaVersion\":2,\"mediaType\":\"", kOciManifestType, "\",\"config\":",
        DescriptorText("application/vnd.oci.empty.v1+json", config), ",\"layers\":[", blob, "]}"));
    entries += (entries.empty() ? "" : ",") +
               DescriptorText(kOciManifestType, manifest, layout.Named("model:" + name));
  }
  ASSERT_TRUE(Import(layout.Tar(layout.Index(entries))));
  uint64_t sum = 0, shared = 0;
  const ImageUsage a = UsageOf("model:a"), b = UsageOf("model:b");
  for (const auto& [part, size] : a.parts) {
    sum += size;
    shared += b.parts.contains(part) ? size : 0;
  }
  EXPECT_EQ(a.parts.size(), 4u) << "manifest, config, blob, the tree of its file";
  EXPECT_LT(sum, model.size() + 10'000) << "the blob, not its other name too";
  EXPECT_EQ(shared, model.size() + 2);
  ASSERT_TRUE(store_->Remove("model:a"));
  Reopen();
  const auto left = store_->Get("model:b");
  ASSERT_TRUE(left) << left.error().message();
  EXPECT_EQ(left->artifact_type, "application/vnd.oci.empty.v1+json");
  ASSERT_EQ(left->layers.size(), 1u);
  EXPECT_EQ(std::filesystem::file_size(left->layers.front() + "/b"), model.size());
}

TEST_F(SpaceTest, UseAndArrivalAreKnownAfterARestart) {
  const WallTime used{std::chrono::seconds(1'900'000'000)};
  const Digest id = store_->Get("one:1")->id;
  ASSERT_TRUE(store_->NoteUse({id}, used));
  const WallTime detected = UsageOf("one:1").detected;
  EXPECT_LE(std::abs((SystemClock().Wall() - detected).count()),
            std::chrono::nanoseconds(std::chrono::minutes(5)).count());
  Reopen();
  EXPECT_EQ(UsageOf("one:1").used, used);
  EXPECT_EQ(UsageOf("two:1").used, WallTime());
  EXPECT_EQ(std::chrono::duration_cast<std::chrono::seconds>(UsageOf("one:1").detected.since_epoch),
            std::chrono::duration_cast<std::chrono::seconds>(detected.since_epoch));
  // What cannot be read is no reason not to start.
  for (const char* text : {"", "{", "[1]", R"({"version":1,"used":{"x":1}})",
                           R"({"version":1,"used":[]})", R"({"version":2,"used":{}})"}) {
    std::ofstream(path_ + "/images/uses.json") << text;
    Reopen();
    EXPECT_TRUE(store_->warnings().empty()) << text;
    EXPECT_EQ(UsageOf("one:1").used, WallTime()) << text;
  }
  // An image that is gone is forgotten.
  ASSERT_TRUE(store_->NoteUse({id}, used));
  ASSERT_TRUE(store_->Remove("one:1"));
  ASSERT_TRUE(store_->NoteUse({}, used));
  std::ifstream file(path_ + "/images/uses.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text.find(id.value), std::string::npos) << text;
}

TEST_F(SpaceTest, ATagIsAnotherName) {
  const Image one = store_->Get("one:1").value();
  ASSERT_TRUE(store_->Tag("one:1", "registry:5000/app:2"));
  EXPECT_EQ(store_->Get("registry:5000/app:2")->id, one.id);
  ASSERT_TRUE(store_->Tag(one.id.value.substr(0, 19), "three"));
  EXPECT_EQ(store_->Get("three:latest")->id, one.id);
  // A name that another image has is this one's from now on.
  const Digest two = store_->Get("two:1")->id;
  ASSERT_TRUE(store_->Tag("one:1", "two:1"));
  EXPECT_EQ(store_->Get("two:1")->id, one.id);
  EXPECT_TRUE(store_->Get(two.value)->repo_tags.empty());
  EXPECT_EQ(store_->Tag("absent", "x").error().code(), Code::kNotFound);
  EXPECT_EQ(store_->Tag("one:1", "UPPER").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(store_->Tag("one:1", "a@sha256:" + std::string(64, '0')).error().code(),
            Code::kInvalidArgument);
  Reopen();
  EXPECT_EQ(store_->Get("registry:5000/app:2")->id, one.id);
  ASSERT_TRUE(store_->Remove("one:1"));
  EXPECT_TRUE(store_->Get("two:1")) << "it goes with its last name";
}

// A removal does not wait for what is under way, and takes nothing that it relies on.
TEST_F(SpaceTest, WhatAPullReliesOnStaysAndTheRestGoesAtOnce) {
  const Image one = store_->Get("one:1").value(), two = store_->Get("two:1").value();
  const size_t blobs = Names("blobs/sha256").size(), layers = Names("layers").size();
  const auto failed = store_->Add([&](const StagingArea& area) -> Result<void> {
    EXPECT_TRUE(area.claim.Blob(one.id));
    EXPECT_FALSE(area.claim.Blob(DigestOf("nothing of the store")));
    EXPECT_TRUE(store_->Remove("one:1"));
    EXPECT_TRUE(area.blobs.Has(one.id)) << "it is relied on";
    EXPECT_EQ(Names("blobs/sha256").size(), blobs - 2) << "manifest and layer have gone";
    EXPECT_EQ(Names("layers").size(), layers - 1);
    return Unavailable("enough");
  });
  EXPECT_FALSE(failed);
  EXPECT_EQ(Names("blobs/sha256").size(), blobs - 3) << "nothing names it and nobody relies on it";
  EXPECT_TRUE(std::filesystem::is_directory(two.layers.at(0) + "/etc"));
}

TEST_F(SpaceTest, AnImageThatIsBeingExportedIsInUse) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_GT(::fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
  UniqueFd reader(ends[0]), writer(ends[1]);
  auto exported = std::async(std::launch::async, [&] {
    auto done = store_->Export("one:1", writer.get());
    writer.Reset();
    return done;
  });
  char byte = 0;
  ASSERT_EQ(::read(reader.get(), &byte, 1), 1) << "it has begun, and cannot go on for long";
  const auto refused = store_->Remove("one:1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kConflict);
  EXPECT_NE(refused.error().message().find("is in use by an export or a push"), std::string::npos);
  EXPECT_TRUE(sys::ReadFd(reader.get(), 1 << 20));
  EXPECT_TRUE(exported.get());
  EXPECT_TRUE(store_->Remove("one:1"));
}

TEST_F(SpaceTest, WhatIsPinnedStays) {
  const Digest id = store_->Get("one:1")->id;
  store_.reset();
  ImageStoreOptions options;
  options.root = path_ + "/images";
  options.aside = path_ + "/aside";
  options.helper = UnpackHelper();
  options.pinned_by = [&](const Digest& asked) {
    return asked == id ? std::string("archive app.tar") : std::string();
  };
  store_ = std::move(*DiskImageStore::Open(options));
  EXPECT_TRUE(store_->Get("one:1")->pinned);
  EXPECT_FALSE(store_->Get("two:1")->pinned);
  const auto refused = store_->Remove("one:1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), StrCat("image ", id.value, " is in use by archive app.tar"));
  EXPECT_TRUE(store_->Remove("two:1"));
}

TEST_F(SpaceTest, UnfinishedContentIsCountedAndGoesByItsAge) {
  const auto put = [this](char name, size_t size, int64_t age) {
    const std::string path = path_ + "/images/partial/" + std::string(64, name);
    std::ofstream(path) << std::string(size, 'x');
    const timespec then{::time(nullptr) - age, 0};
    const timespec times[2] = {then, then};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  };
  put('a', 1000, 100);
  put('b', 200, 10);
  put('c', 30, -1000);  // a clock that was set back
  EXPECT_EQ(store_->Partial()->bytes, 1230u);
  EXPECT_EQ(store_->RemovePartial(std::chrono::seconds(200))->bytes, 30u);
  EXPECT_EQ(store_->RemovePartial(std::chrono::seconds(50))->bytes, 1000u);
  EXPECT_EQ(store_->Partial()->bytes, 200u);
  EXPECT_EQ(store_->RemovePartial(std::chrono::seconds(0))->files, 1u);
  EXPECT_TRUE(Names("partial").empty());
}

}  // namespace
}  // namespace holdfast::runtime
