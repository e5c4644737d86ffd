// SPDX-License-Identifier: Apache-2.0
// Images that want to fill the disk, on a small file system of their own: they are refused while
// there is still room for others, and leave nothing behind.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "holdfast/base/strings.h"
#include "tests/support/tar_builder.h"
#include "tests/system/runtime/image/store/archive_builder.h"
#include "tests/system/runtime/image/store/store_fixture.h"

namespace holdfast::runtime {
namespace {

using test::BuildTar;
using test::Dir;
using test::File;
using test::TarMember;
using test::TarPacking;

constexpr uint64_t kMiB = 1 << 20;

struct Room {
  double bytes;  // free, as a share of the whole
  double inodes;
};

// One file of `size` bytes as an old GNU sparse member: a byte at each multiple of `stride`.
std::string SparseTar(uint64_t size, uint64_t stride, size_t entries) {
  const auto put = [](std::string& block, size_t at, uint64_t value) {  // base 256, 12 bytes
    block[at] = static_cast<char>(0x80);
    for (size_t i = 0; i < 8; ++i) block[at + 11 - i] = static_cast<char>(value >> (8 * i));
  };
  std::string header(512, '\0');
  header.replace(0, 6, "sparse");
  header.replace(100, 24, "0000644 0000000 0000000 ");
  put(header, 124, entries);
  put(header, 136, 0);
  header.replace(148, 8, "        ");
  header[156] = 'S';
  header.replace(257, 8, std::string_view("ustar  \0", 8));
  put(header, 483, size);
  size_t entry = 0;
  for (; entry < std::min<size_t>(entries, 4); ++entry) {
    put(header, 386 + entry * 24, entry * stride);
    put(header, 398 + entry * 24, 1);
  }
  header[482] = entry < entries ? 1 : 0;
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  header.replace(148, 7, std::string_view(text, 7));
  while (entry < entries) {
    std::string more(512, '\0');
    for (size_t i = 0; i < 21 && entry < entries; ++i, ++entry) {
      put(more, i * 24, entry * stride);
      put(more, i * 24 + 12, 1);
    }
    more[504] = entry < entries ? 1 : 0;
    header += more;
  }
  header += std::string(entries, 'x');
  header.resize((header.size() + 511) / 512 * 512 + 1024);
  return header;
}

class RoomTest : public StoreTest {
 protected:
  // 64 MiB and 10,000 inodes.
  void SetUp() override {
    StoreTest::SetUp();
    if (path_.empty()) return;
    store_.reset();
    limits_.reserve = {};
    ASSERT_EQ(::mount("tmpfs", (path_ + "/images").c_str(), "tmpfs", 0, "size=64m,nr_inodes=10000"),
              0);
    Reopen();
  }
  void TearDown() override {
    store_.reset();
    if (!path_.empty()) ::umount2((path_ + "/images").c_str(), MNT_DETACH);
    StoreTest::TearDown();
  }

  Room FreeRoom() const {
    struct statvfs st{};
    EXPECT_EQ(::statvfs((path_ + "/images").c_str(), &st), 0);
    return {static_cast<double>(st.f_bavail) / static_cast<double>(st.f_blocks),
            static_cast<double>(st.f_favail) / static_cast<double>(st.f_files)};
  }

  // Imports while looking at what is left; `least` becomes the lowest that was seen.
  Result<std::vector<Image>> Watched(const std::string& archive, Room& least) {
    std::atomic<bool> over = false;
    least = FreeRoom();
    std::thread watch([&] {
      while (!over) {
        const Room now = FreeRoom();
        least = {std::min(least.bytes, now.bytes), std::min(least.inodes, now.inodes)};
        ::usleep(200);
      }
    });
    auto added = Import(archive);
    over = true;
    watch.join();
    return added;
  }

  void ExpectRefused(const std::string& archive, const std::string& what) {
    const Room before = FreeRoom();
    Room least{};
    const auto added = Watched(archive, least);
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code(), Code::kResourceExhausted) << added.error().message();
    EXPECT_NE(added.error().message().find(what), std::string::npos) << added.error().message();
    // Not below half of what is kept free, in spite of what was on its way.
    EXPECT_GT(least.bytes, 0.075);
    EXPECT_GT(least.inodes, 0.025);
    EXPECT_TRUE(Names("ingest").empty());
    EXPECT_TRUE(Names("blobs/sha256").empty());
    EXPECT_TRUE(Names("layers").empty());
    EXPECT_NEAR(FreeRoom().bytes, before.bytes, 0.001);
    EXPECT_NEAR(FreeRoom().inodes, before.inodes, 0.001);
  }

  static std::string Pattern(uint64_t size) {
    std::string text(size, 'a');
    for (size_t i = 0; i < size; i += 1000) text[i] = 'b';
    return text;
  }
};

TEST_F(RoomTest, BombsOfEveryPackingEndBeforeTheDiskIsFull) {
  const std::vector<TarMember> members = {File("bomb", Pattern(200 * kMiB))};
  for (const TarPacking packing : {TarPacking::kGzip, TarPacking::kZstd}) {
    const std::string bomb = BuildTar(members, packing);
    ASSERT_LT(bomb.size(), 2 * kMiB);
    ExpectRefused(bomb, "bytes");
    LayoutBuilder layout;
    const std::string inner = layout.AddImage({bomb});
    ExpectRefused(
        layout.Tar(layout.Index(DescriptorText(kOciManifestType, inner, layout.Named("bomb:1")))),
        "bytes");
  }
}

TEST_F(RoomTest, AnArchiveThatIsTooLargeAsItComesIsRefused) {
  ExpectRefused(BuildTar({File("large", Pattern(100 * kMiB))}), "bytes");
  // Whole it fits, with its members beside it no more.
  LayoutBuilder layout;
  layout.Add(Pattern(40 * kMiB));
  ExpectRefused(layout.Tar(layout.Index("")), "bytes");
}

TEST_F(RoomTest, ABombOfInodesEndsBeforeThereAreNone) {
  std::vector<TarMember> members;
  for (int i = 0; i < 50'000; ++i) members.push_back(File(StrCat("f", i), ""));
  ExpectRefused(BuildTar(members, TarPacking::kGzip), "inodes");
  // Few members, each in directories of its own.
  members.clear();
  for (int i = 0; i < 200; ++i) {
    std::string name = StrCat("d", i);
    for (int depth = 0; depth < 500; ++depth) name += "/d";
    members.push_back(File(name, ""));
  }
  ExpectRefused(BuildTar(members, TarPacking::kZstd), "inodes");
}

TEST_F(RoomTest, ZerosTakeNoRoom) {
  // 256 MiB of zeros on 64 MiB; around them what must be there to the byte.
  const std::string data = Pattern(10'000);
  std::string content = data;
  content.resize(256 * kMiB);
  content += data + std::string(5000, '\0');
  auto added = Import(BuildTar({File("zeros", content)}, TarPacking::kZstd));
  ASSERT_TRUE(added) << added.error().message();
  const std::string file = added->at(0).layers.at(0) + "/zeros";
  struct stat st{};
  ASSERT_EQ(::stat(file.c_str(), &st), 0);
  EXPECT_EQ(static_cast<uint64_t>(st.st_size), content.size());
  EXPECT_LT(st.st_blocks * 512, 64 * 1024);
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::string read(kMiB, 'x');
  for (size_t at = 0; at < content.size(); at += read.size()) {
    const ssize_t n = ::pread(fd.get(), read.data(), read.size(), static_cast<off_t>(at));
    ASSERT_EQ(static_cast<size_t>(n), std::min(read.size(), content.size() - at));
    ASSERT_EQ(content.compare(at, static_cast<size_t>(n), read, 0, static_cast<size_t>(n)), 0)
        << at;
  }
}

TEST_F(RoomTest, ASparseFileTakesOnlyWhatIsInIt) {
  constexpr uint64_t kTiB = 1ull << 40;
  auto added = Import(SparseTar(kTiB, kTiB / 100, 100));
  ASSERT_TRUE(added) << added.error().message();
  struct stat st{};
  ASSERT_EQ(::stat((added->at(0).layers.at(0) + "/sparse").c_str(), &st), 0);
  EXPECT_EQ(static_cast<uint64_t>(st.st_size), kTiB);
  EXPECT_LE(st.st_blocks * 512, 101 * 4096);
  ASSERT_TRUE(store_->Remove(added->at(0).id.value));

  const auto larger = Import(SparseTar(32 * kTiB, kTiB, 4));
  ASSERT_FALSE(larger);
  EXPECT_NE(larger.error().message().find("bytes in one file"), std::string::npos)
      << larger.error().message();
  // A byte in each block: 1 MB that takes 160.
  ExpectRefused(SparseTar(kTiB, 8192, 40'000), "bytes");
}

TEST_F(RoomTest, AnImageThatFitsIsImportedAsLongAsTheReserveStays) {
  ASSERT_TRUE(Import(BuildTar({File("a", Pattern(15 * kMiB))})));
  // 30 MiB are used, another 30 would leave less than 15 %.
  ASSERT_FALSE(Import(BuildTar({File("b", Pattern(15 * kMiB))})));
  store_.reset();
  limits_.reserve = kNoReserve;
  Reopen();
  EXPECT_TRUE(Import(BuildTar({File("b", Pattern(15 * kMiB))})));
}

TEST_F(RoomTest, AnEmptyStreamIsNoImage) {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const auto nothing = store_->Import(null, {});
  ::close(null);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code(), Code::kInvalidArgument);
  EXPECT_NE(nothing.error().message().find("the stream is empty"), std::string::npos)
      << nothing.error().message();
  // What gzip makes of nothing.
  const auto packed = Import(std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", 20));
  ASSERT_FALSE(packed);
  EXPECT_NE(packed.error().message().find("the stream is empty"), std::string::npos)
      << packed.error().message();
  EXPECT_TRUE(Names("ingest").empty());
  EXPECT_TRUE(store_->List()->empty());
  // An archive without a member is one: "tar c -T /dev/null".
  EXPECT_TRUE(Import(std::string(10'240, '\0')));
}

}  // namespace
}  // namespace holdfast::runtime
