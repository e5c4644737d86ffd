// SPDX-License-Identifier: Apache-2.0
// A disk without a free block and without a free inode: the store opens, shows and removes, which
// is how room is made. And a disk that takes its time: who only asks for an image does not wait for
// it.
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <future>

#include "holdfast/base/strings.h"
#include "tests/support/tar_builder.h"
#include "tests/system/runtime/image/store/store_fixture.h"

namespace holdfast::runtime {
namespace {

using test::BuildTar;
using test::Dir;
using test::File;

ImportOptions Named(const std::string& name) {
  ImportOptions options;
  options.reference = name;
  options.config.emplace();
  return options;
}

class FullDiskTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    if (IsSkipped()) return;
    store_.reset();
    ASSERT_EQ(::mount("images", path_.c_str(), "tmpfs", 0, "size=2m,nr_inodes=400"), 0);
    limits_.reserve = {};
    Reopen();
    ASSERT_TRUE(Import(BuildTar({Dir("bin"), File("bin/sh", "#!")}), Named("one")));
    ASSERT_TRUE(Import(BuildTar({Dir("bin"), File("bin/sh", "other")}), Named("two")));
  }
  void TearDown() override {
    store_.reset();
    (void)::umount2(path_.c_str(), MNT_DETACH);
    StoreTest::TearDown();
  }
};

// The sweep made a directory first, and without it the agent did not start.
TEST_F(FullDiskTest, OpensShowsAndRemoves) {
  std::filesystem::create_directories(path_ + "/images/layers/0123456789abcdef0123456789abcdef/x");
  std::filesystem::create_directories(path_ + "/images/ingest/left");
  Fill();
  Reopen();
  EXPECT_TRUE(store_->Get("one"));
  EXPECT_EQ(store_->List()->size(), 2u);
  EXPECT_EQ(Names("layers").size(), 2u) << "what a crash left went at Open";
  const auto removed = store_->Remove("one");
  EXPECT_TRUE(removed) << removed.error().message();
  EXPECT_EQ(Names("layers").size(), 1u);
  EXPECT_TRUE(Names("ingest").empty());
  EXPECT_EQ(store_->List()->size(), 1u);
}

TEST_F(FullDiskTest, OpensOnAReadOnlyDisk) {
  std::filesystem::create_directories(path_ + "/images/layers/0123456789abcdef0123456789abcdef/x");
  std::filesystem::create_directories(path_ + "/images/ingest/left");
  std::ofstream(path_ + "/images/names/.x.1.tmp") << "half";
  store_.reset();
  ASSERT_EQ(::mount(nullptr, path_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  Reopen();
  ASSERT_NE(store_, nullptr);
  EXPECT_TRUE(store_->Get("one"));
  const auto removed = store_->Remove("one");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().sys_errno(), EROFS) << removed.error().message();
  EXPECT_TRUE(store_->Get("one"));
}

TEST_F(StoreTest, WhoAsksForAnImageDoesNotWaitForAChange) {
  ASSERT_TRUE(Import(BuildTar({Dir("bin")}), Named("one")));
  ASSERT_TRUE(Import(BuildTar({Dir("lib")}), Named("two")));
  store_.reset();
  std::promise<void> asked;
  std::promise<void> answer;
  ImageStoreOptions options;
  options.root = path_ + "/images";
  options.aside = path_ + "/aside";
  options.helper = UnpackHelper();
  options.user_of = [&](const Image&) {
    asked.set_value();
    answer.get_future().wait();  // as long as a disk may take
    return std::string();
  };
  auto store = DiskImageStore::Open(options);
  ASSERT_TRUE(store);
  auto removal = std::async(std::launch::async, [&] { return (*store)->Remove("one"); });
  asked.get_future().wait();
  auto get = std::async(std::launch::async, [&] { return (*store)->Get("two").has_value(); });
  const bool at_once = get.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  answer.set_value();
  EXPECT_TRUE(at_once);
  EXPECT_TRUE(get.get());
  EXPECT_TRUE(removal.get());
}

}  // namespace
}  // namespace holdfast::runtime
