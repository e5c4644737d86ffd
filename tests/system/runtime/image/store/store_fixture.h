// SPDX-License-Identifier: Apache-2.0
// A store of its own in a temporary directory for each test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/image/store/disk_image_store.h"

namespace holdfast::runtime {

// All programs of a build lie in one directory, wherever that was copied to.
inline std::string ProgramBeside(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}
inline constexpr model::DiskReserve kNoReserve{{0, 0}, {0, 0}};
inline std::string UnpackHelper() { return ProgramBeside("holdfast-unpack"); }

class StoreTest : public ::testing::Test {
 protected:
  // Mounts of these tests are seen by nobody else.
  static void SetUpTestSuite() {
    if (::geteuid() != 0) return;
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: a layer holds files of every owner";
    char pattern[] = "/tmp/holdfast-store-XXXXXX";
    path_ = ::mkdtemp(pattern);
    Reopen();
  }
  void TearDown() override {
    store_.reset();
    if (!path_.empty()) std::filesystem::remove_all(path_);
  }

  void Reopen() {
    store_.reset();
    ImageStoreOptions options;
    options.root = path_ + "/images";
    options.aside = path_ + "/aside";
    options.helper = UnpackHelper();
    options.limits = limits_;
    options.policy = policy_;
    options.user_of = [this](const Image& image) {
      return image.id == used_ ? user_ : std::string();
    };
    auto store = DiskImageStore::Open(options);
    ASSERT_TRUE(store) << store.error().message();
    store_ = std::move(*store);
  }

  Result<std::vector<Image>> Import(const std::string& archive, const ImportOptions& options = {}) {
    auto fd = sys::SealedMemfd("archive", archive);
    if (!fd) return std::move(fd.error());
    return store_->Import(fd->get(), options);
  }

  // Names below `sub` of the store.
  std::vector<std::string> Names(const std::string& sub) {
    auto dir = sys::OpenDir(path_ + "/images");
    return sys::ListDirAt(dir->get(), sub).value();
  }

  // Takes each block and each inode of what is mounted at `path_`.
  void Fill() const {
    std::ofstream file(path_ + "/fill");
    while (file << std::string(4096, 'x') << std::flush) {
    }
    for (int i = 0;; ++i) {
      const std::string name = StrCat(path_, "/fill.", i);
      const UniqueFd made(::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
      if (!made) break;
    }
    ASSERT_NE(::mkdir((path_ + "/no-room").c_str(), 0700), 0);
  }

  std::string path_;
  // This machine's disk may be fuller than a node's should be: no reserve where none is tested.
  ImageLimits limits_{.reserve = kNoReserve};
  SignaturePolicy policy_;
  Digest used_;
  std::string user_;
  std::unique_ptr<DiskImageStore> store_;
};

}  // namespace holdfast::runtime
