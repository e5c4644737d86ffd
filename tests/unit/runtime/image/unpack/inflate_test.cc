// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/inflate.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "holdfast/sys/files.h"
#include "tests/support/tar_builder.h"

namespace holdfast::runtime::unpack {
namespace {

using test::TarPacking;

// A tar whose content compresses and is larger than the buffers in between.
std::string Tar(TarPacking packing = TarPacking::kPlain) {
  std::string content;
  for (uint64_t i = 0; content.size() < (3 << 20); ++i) content += std::to_string(i * 7919) + ' ';
  return test::BuildTar({test::File("f", content)}, packing);
}

Result<std::string> RunOn(Result<void> (*inflate)(int, int), const std::string& packed) {
  auto in = sys::SealedMemfd("in", packed);
  const UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
  if (auto done = inflate(in->get(), out.get()); !done) return std::move(done.error());
  ::lseek(out.get(), 0, SEEK_SET);
  return sys::ReadFd(out.get(), 64 << 20);
}

TEST(InflateTest, BothFormatsComeBackWhole) {
  EXPECT_EQ(RunOn(InflateGzip, Tar(TarPacking::kGzip)).value(), Tar());
  EXPECT_EQ(RunOn(InflateZstd, Tar(TarPacking::kZstd)).value(), Tar());
}

TEST(InflateTest, SeveralMembersAndFramesAreOneStream) {
  const std::string gz = Tar(TarPacking::kGzip);
  const std::string zst = Tar(TarPacking::kZstd);
  EXPECT_EQ(RunOn(InflateGzip, gz + gz + gz).value(), Tar() + Tar() + Tar());
  EXPECT_EQ(RunOn(InflateZstd, zst + zst).value(), Tar() + Tar());
}

// A member by zlib. Level 0 keeps its length known: what it holds and 23 bytes.
std::string Member(const std::string& content, int level, gz_header* header = nullptr) {
  z_stream z{};
  EXPECT_EQ(::deflateInit2(&z, level, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
  if (header != nullptr) {
    EXPECT_EQ(::deflateSetHeader(&z, header), Z_OK);
  }
  std::string packed(::deflateBound(&z, content.size()) + (1 << 20), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  z.avail_in = static_cast<uInt>(content.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(::deflate(&z, Z_FINISH), Z_STREAM_END);
  packed.resize(z.total_out);
  ::deflateEnd(&z);
  return packed;
}

TEST(InflateTest, GzipMembersMayEndAnywhereInWhatIsReadAtOnce) {
  const std::string next = Member("next", 9);
  for (size_t size = (256 << 10) - 60; size < (256 << 10) + 4; ++size) {
    const std::string content(size, 'x');
    EXPECT_EQ(RunOn(InflateGzip, Member(content, 0) + next).value(), content + "next") << size;
  }
  std::string packed, plain;
  for (size_t size = 0; size < 200; ++size) {
    packed += Member(std::string(size, 'a'), 9);
    plain += std::string(size, 'a');
  }
  EXPECT_EQ(RunOn(InflateGzip, packed).value(), plain);
}

TEST(InflateTest, GzipHeadersMayBeLongerThanWhatIsReadAtOnce) {
  std::string extra(60'000, 'e'), name(300'000, 'n'), comment(300'000, 'c');
  gz_header header{};
  header.extra = reinterpret_cast<Bytef*>(extra.data());
  header.extra_len = static_cast<uInt>(extra.size());
  header.name = reinterpret_cast<Bytef*>(name.data());
  header.comment = reinterpret_cast<Bytef*>(comment.data());
  header.hcrc = 1;
  std::string packed = Member("content", 6, &header);
  EXPECT_EQ(RunOn(InflateGzip, packed).value(), "content");
  packed[packed.size() / 2] = 'X';
  EXPECT_FALSE(RunOn(InflateGzip, packed)) << "the header's checksum is checked";
}

TEST(InflateTest, DamageTruncationAndGarbageAreRefused) {
  for (const auto& [inflate, packed] : {std::pair(&InflateGzip, Tar(TarPacking::kGzip)),
                                        std::pair(&InflateZstd, Tar(TarPacking::kZstd))}) {
    EXPECT_FALSE(RunOn(inflate, ""));
    EXPECT_FALSE(RunOn(inflate, packed.substr(0, packed.size() - 1)));
    EXPECT_FALSE(RunOn(inflate, packed.substr(0, packed.size() / 2)));
    EXPECT_FALSE(RunOn(inflate, packed + "garbage"));
    EXPECT_FALSE(RunOn(inflate, packed + std::string(512, '\0')));
    EXPECT_FALSE(RunOn(inflate, "garbage" + packed));
  }
  std::string flipped = Tar(TarPacking::kGzip);
  flipped[flipped.size() - 6] = static_cast<char>(flipped[flipped.size() - 6] ^ 1);
  EXPECT_FALSE(RunOn(InflateGzip, flipped)) << "the checksum is checked";
}

TEST(InflateTest, ZstdWindowsAboveTheLimitAreRefused) {
  // Magic, then a frame header with window descriptor 0xff: 3.75 TiB (RFC 8878, 3.1.1.1.2).
  const std::string frame("\x28\xb5\x2f\xfd\x00\xff\x01\x00\x00", 9);
  const auto result = RunOn(InflateZstd, frame);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("memory"), std::string::npos) << result.error().message();
}

}  // namespace
}  // namespace holdfast::runtime::unpack
