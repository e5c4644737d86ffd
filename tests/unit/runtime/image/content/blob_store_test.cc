// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/content/blob_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "holdfast/sys/files.h"
#include "runtime/image/content/copy.h"
#include "runtime/image/content/digest.h"

namespace holdfast::runtime {
namespace {

TEST(DigestTest, KnownValuesAndChains) {
  EXPECT_EQ(DigestOf("").value,
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(DigestOf("abc").value,
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const Digest a = DigestOf("a");
  const Digest b = DigestOf("b");
  EXPECT_EQ(ChainId({}, a), a);
  EXPECT_EQ(ChainId(a, b), DigestOf(a.value + " " + b.value));
}

TEST(DigestTest, OnlyTheOneFormIsRead) {
  const std::string hex(64, 'a');
  EXPECT_TRUE(ParseDigest("sha256:" + hex));
  for (const std::string& text :
       {hex, "sha256:" + hex.substr(1), "sha256:" + hex + "a", "SHA256:" + hex, "sha512:" + hex,
        "sha256:" + std::string(64, 'A'), "sha256:../" + hex.substr(3), std::string()}) {
    EXPECT_FALSE(ParseDigest(text)) << text;
  }
}

class BlobStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-blobs-XXXXXX";
    path_ = ::mkdtemp(pattern);
    root_ = std::move(*sys::OpenDir(path_));
  }
  void TearDown() override { std::filesystem::remove_all(path_); }

  Digest Put(BlobStore& blobs, const std::string& content) {
    auto ingest = blobs.NewIngest();
    auto file = ingest->Create("x");
    EXPECT_TRUE(sys::WriteAll(file->get(), content));
    const Digest digest = DigestOf(content);
    EXPECT_TRUE(blobs.Commit(*ingest, "x", digest));
    return digest;
  }

  std::string path_;
  DirFd root_;
};

TEST_F(BlobStoreTest, CommittedBlobsAreReadBackAndCheckedAgain) {
  auto blobs = BlobStore::Open(root_.get(), path_ + "/aside");
  ASSERT_TRUE(blobs);
  const Digest digest = Put(*blobs, "content");
  EXPECT_EQ(blobs->ReadBlob(digest, 100).value(), "content");
  EXPECT_EQ(blobs->SizeOf(digest).value(), 7u);
  EXPECT_EQ(blobs->List().value(), std::vector<Digest>{digest});
  EXPECT_TRUE(sys::ListDirAt(root_.get(), "ingest")->empty()) << "the ingest directory goes";
  std::ofstream(path_ + "/blobs/sha256/" + HexOf(digest)) << "changed";
  EXPECT_FALSE(blobs->ReadBlob(digest, 100));
  EXPECT_TRUE(blobs->Remove(digest));
  EXPECT_FALSE(blobs->Has(digest));
  EXPECT_TRUE(blobs->Remove(digest)) << "absent is success";
}

TEST_F(BlobStoreTest, OpenEmptiesTheIngestDirectory) {
  std::filesystem::create_directories(path_ + "/ingest/left/over");
  ASSERT_TRUE(BlobStore::Open(root_.get(), path_ + "/aside"));
  EXPECT_TRUE(std::filesystem::is_empty(path_ + "/ingest"));
}

TEST_F(BlobStoreTest, CopyHashedStopsAtItsLimit) {
  auto memory = sys::SealedMemfd("m", "12345");
  EXPECT_EQ(HashFd(memory->get(), 4).error().code(), Code::kResourceExhausted);
  ::lseek(memory->get(), 0, SEEK_SET);
  EXPECT_EQ(HashFd(memory->get(), 5)->digest, DigestOf("12345"));
}

}  // namespace
}  // namespace holdfast::runtime
