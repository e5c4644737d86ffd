// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/inflate.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

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

TEST(InflateTest, DamageTruncationAndGarbageAreRefused) {
  for (const auto& [inflate, packed] : {std::pair(&InflateGzip, Tar(TarPacking::kGzip)),
                                        std::pair(&InflateZstd, Tar(TarPacking::kZstd))}) {
    EXPECT_FALSE(RunOn(inflate, ""));
    EXPECT_FALSE(RunOn(inflate, packed.substr(0, packed.size() - 1)));
    EXPECT_FALSE(RunOn(inflate, packed.substr(0, packed.size() / 2)));
    EXPECT_FALSE(RunOn(inflate, packed + "garbage"));
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
