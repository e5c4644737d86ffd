// SPDX-License-Identifier: Apache-2.0
// gzip by ISA-L, whose code no sanitizer looks into: zlib says what it should have made of it. In a pipe that hands it
// over in small pieces, so that headers, blocks and trailers come cut.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/files.h"
#include "runtime/image/unpack/inflate.h"
#include "tests/fuzz/runtime/image/targets.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::runtime::fuzz {
namespace {

using holdfast::fuzz::Require;

constexpr size_t kMostPlain = 1 << 20;  // of a bomb nothing is compared
constexpr int kPipe = 1 << 20;          // 256 packets
constexpr size_t kMostPackets = 250;
constexpr int kGzipOnly = 16 + MAX_WBITS, kRaw = -MAX_WBITS;

// How one stream ended.
struct Inflated {
  bool whole = false;
  bool bomb = false;
  size_t taken = 0;  // bytes of the input
  std::string plain;
};

// One deflate stream or one gzip member at the beginning of `input`, by zlib.
Inflated ByZlib(Input input, int window) {
  Inflated result;
  z_stream z{};
  if (::inflateInit2(&z, window) != Z_OK) return result;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
  z.avail_in = static_cast<uInt>(input.size());
  std::array<char, 64 << 10> buffer{};
  int status = Z_OK;
  while (status == Z_OK && !result.bomb) {
    z.next_out = reinterpret_cast<Bytef*>(buffer.data());
    z.avail_out = buffer.size();
    status = ::inflate(&z, Z_NO_FLUSH);
    result.plain.append(buffer.data(), buffer.size() - z.avail_out);
    result.bomb = result.plain.size() > kMostPlain;
    if (z.avail_in == 0 && z.avail_out != 0) break;
  }
  result.whole = status == Z_STREAM_END;
  result.taken = input.size() - z.avail_in;
  ::inflateEnd(&z);
  return result;
}

// All members.
Inflated GzipByZlib(Input input) {
  Inflated all;
  do {
    Inflated one = ByZlib(input.substr(all.taken), kGzipOnly);
    all.plain += one.plain;
    all.taken += one.taken;
    all.whole = one.whole;
    all.bomb = one.bomb || all.plain.size() > kMostPlain;
  } while (all.whole && !all.bomb && all.taken < input.size());
  return all;
}

UniqueFd InPieces(Input input) {
  int fds[2];
  Require(::pipe2(fds, O_DIRECT | O_CLOEXEC) == 0, "a pipe", "");
  UniqueFd out(fds[0]), in(fds[1]);
  Require(::fcntl(in.get(), F_SETPIPE_SZ, kPipe) > 0, "a large pipe", "");
  // A packet is at most a page.
  const size_t least = input.size() / kMostPackets + 1;
  const size_t size = std::clamp<size_t>(least + input.size() % 37, least, 4096);
  for (size_t at = 0; at < input.size(); at += size) {
    Require(sys::WriteAll(in.get(), input.substr(at, size)).has_value(), "room in the pipe", "");
  }
  return out;
}

Inflated ByOurs(Input input) {
  const UniqueFd in = InPieces(input);
  const UniqueFd out(::memfd_create("plain", MFD_CLOEXEC));
  Inflated result;
  result.whole = unpack::InflateGzip(in.get(), out.get()).has_value();
  ::lseek(out.get(), 0, SEEK_SET);
  if (auto plain = sys::ReadFd(out.get(), 2 * kMostPlain)) result.plain = std::move(*plain);
  return result;
}

void CompareWithZlib(Input input) {
  const Inflated expected = GzipByZlib(input);
  if (expected.bomb) return;
  const Inflated made = ByOurs(input);
  Require(made.whole == expected.whole,
          expected.whole ? "what zlib takes is taken" : "what zlib refuses is refused", input);
  const size_t both = std::min(made.plain.size(), expected.plain.size());
  Require(!made.whole || made.plain == expected.plain, "content as by zlib", input);
  Require(made.plain.substr(0, both) == expected.plain.substr(0, both), "beginning as by zlib",
          input);
}

void AppendLittleEndian(std::string& to, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) to.push_back(static_cast<char>(value >> shift));
}

// A gzip member with `deflated` in it, with checksum and length that are right: damage should reach what comes after them.
std::string AsMember(Input deflated) {
  const Inflated content = ByZlib(deflated, kRaw);
  std::string member("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  member += deflated.substr(0, content.taken);
  AppendLittleEndian(
      member, static_cast<uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(content.plain.data()),
                                            static_cast<uInt>(content.plain.size()))));
  AppendLittleEndian(member, static_cast<uint32_t>(content.plain.size()));
  member += deflated.substr(content.taken);
  return member;
}

}  // namespace

void FuzzInflate(Input input) {
  CompareWithZlib(input);
  if (input.size() < (32 << 10)) CompareWithZlib(AsMember(input));
  const UniqueFd in = InPieces(input);
  const UniqueFd out(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  (void)unpack::InflateZstd(in.get(), out.get());
}

}  // namespace holdfast::runtime::fuzz
