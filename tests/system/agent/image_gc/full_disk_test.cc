// SPDX-License-Identifier: Apache-2.0
// The collector over a real store on a file system without a free block and without a free inode:
// room is made all the same, and what is needed stays.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "agent/image_gc/image_collector.h"
#include "holdfast/base/strings.h"
#include "tests/support/tar_builder.h"
#include "tests/system/runtime/image/store/store_fixture.h"

namespace holdfast::agent {
namespace {

using test::BuildTar;
using test::Dir;
using test::File;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ToldEvents : public EventSink {
 public:
  void AddEvent(const EventSubject&, const EventNote& note) override {
    told.push_back(note.reason + ": " + note.message);
  }
  std::vector<std::string> told;
};

class FullDiskGcTest : public runtime::StoreTest {
 protected:
  // 8 MiB and 600 inodes.
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    store_.reset();
    ASSERT_EQ(::mount("images", path_.c_str(), "tmpfs", 0, "size=8m,nr_inodes=600"), 0);
    Reopen();
    for (const char* name : {"one", "two", "three"}) {
      ImportOptions options;
      options.reference = name;
      options.config.emplace();
      ASSERT_TRUE(Import(
          BuildTar({Dir("bin"), File(StrCat("bin/", name), std::string(500'000, 'x'))}), options));
    }
    ASSERT_TRUE(store_->NoteUse({store_->Get("two")->id}, Ago(std::chrono::hours(2))));
    config_.minimum_age = std::chrono::seconds(0);
    collector_ = std::make_unique<ImageCollector>(ImageCollectorParts{
        *store_, *store_,
        [this] {
          return [this](const Image& image) {
            return !image.repo_tags.empty() && needed_.contains(image.repo_tags.front());
          };
        },
        events_, clock_, "n1", config_, [](const std::string&) {}});
  }
  void TearDown() override {
    collector_.reset();
    store_.reset();
    (void)::umount2(path_.c_str(), MNT_DETACH);
    StoreTest::TearDown();
  }
  WallTime Ago(std::chrono::nanoseconds time) const { return {clock_.Wall().since_epoch - time}; }
  std::vector<std::string> Tags() {
    std::vector<std::string> names;
    const std::vector<Image> images = store_->List().value();
    for (const Image& image : images) names.push_back(image.repo_tags.front());
    std::sort(names.begin(), names.end());
    return names;
  }
  uint64_t FreeBytes() const {
    struct statvfs st{};
    EXPECT_EQ(::statvfs(path_.c_str(), &st), 0);
    return st.f_bavail * st.f_frsize;
  }

  SystemClock clock_;
  ToldEvents events_;
  ImageGcConfig config_;
  std::set<std::string> needed_{"docker.io/library/three:latest"};
  std::unique_ptr<ImageCollector> collector_;
};

TEST_F(FullDiskGcTest, RoomIsMadeWhereThereIsNone) {
  Fill();
  ASSERT_EQ(FreeBytes(), 0u);
  collector_->Collect();  // 1.6 MiB are wanted; each image has about 1 MB
  EXPECT_THAT(Tags(), ElementsAre("docker.io/library/three:latest"));
  EXPECT_GT(FreeBytes(), 1'500'000u);
  EXPECT_THAT(events_.told, IsEmpty());
  Reopen();
  EXPECT_THAT(Tags(), ElementsAre("docker.io/library/three:latest"));
  EXPECT_THAT(Names("ingest"), IsEmpty());
}

TEST_F(FullDiskGcTest, OfTheUnneededTheOneThatNeverWasGoesFirst) {
  // About 800 kB are wanted: one image has to go.
  std::ofstream(path_ + "/fill") << std::string(FreeBytes() - 900'000, 'x');
  collector_->Collect();
  EXPECT_THAT(Tags(),
              ElementsAre("docker.io/library/three:latest", "docker.io/library/two:latest"));
}

TEST_F(FullDiskGcTest, AFullDiskIsPrunedToo) {
  Fill();
  const auto pruned = collector_->Prune({.all = true, .until = {}});
  ASSERT_TRUE(pruned) << pruned.error().message();
  EXPECT_EQ(pruned->images.size(), 2u);
  EXPECT_EQ(pruned->errors, "");
  EXPECT_GE(FreeBytes(), pruned->bytes - 65'536) << "about what it says";
  EXPECT_LE(FreeBytes(), pruned->bytes + 65'536);
  EXPECT_THAT(Tags(), ElementsAre("docker.io/library/three:latest"));
}

TEST_F(FullDiskGcTest, WhatImagesDoNotTakeIsTold) {
  needed_ = {"docker.io/library/one:latest", "docker.io/library/two:latest",
             "docker.io/library/three:latest"};
  Fill();
  collector_->Collect();
  EXPECT_THAT(events_.told, ElementsAre(HasSubstr("but only found 0 bytes eligible to free.")));
  EXPECT_EQ(Tags().size(), 3u);
}

}  // namespace
}  // namespace holdfast::agent
