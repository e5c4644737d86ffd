// SPDX-License-Identifier: Apache-2.0
// A store of its own in a temporary directory for each test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "holdfast/sys/files.h"
#include "runtime/image/store/disk_image_store.h"

namespace holdfast::runtime {

// In a VM the helper lies elsewhere than where it was built.
inline std::string UnpackHelper() {
  const char* path = std::getenv("HOLDFAST_UNPACK");
  return path != nullptr ? path : HOLDFAST_UNPACK_PATH;
}

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-store-XXXXXX";
    path_ = ::mkdtemp(pattern);
    Reopen();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(path_);
  }

  void Reopen() {
    store_.reset();
    ImageStoreOptions options;
    options.root = path_ + "/images";
    options.helper = UnpackHelper();
    options.limits = limits_;
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

  std::string path_;
  ImageLimits limits_;
  Digest used_;
  std::string user_;
  std::unique_ptr<DiskImageStore> store_;
};

}  // namespace holdfast::runtime
