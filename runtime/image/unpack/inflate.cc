// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/inflate.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <memory>
#include <string_view>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::runtime::unpack {
namespace {

constexpr size_t kBuffer = 256 * 1024;
constexpr int kMaxZstdWindowLog = 27;

Result<size_t> Read(int fd, std::vector<unsigned char>& buffer) {
  for (;;) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) return Error::FromErrno(errno, "read");
  }
}

Result<void> Write(int fd, const void* data, size_t size) {
  return sys::WriteAll(fd, {static_cast<const char*>(data), size});
}

struct InflateEnd {
  void operator()(z_stream* z) const {
    ::inflateEnd(z);
    delete z;
  }
};

struct ZstdFree {
  void operator()(ZSTD_DStream* z) const { ::ZSTD_freeDStream(z); }
};

}  // namespace

Result<void> InflateGzip(int in, int out) {
  std::unique_ptr<z_stream, InflateEnd> z(new z_stream{});
  if (::inflateInit2(z.get(), 15 + 16) != Z_OK) return Internal("gzip: no memory");
  std::vector<unsigned char> input(kBuffer);
  std::vector<unsigned char> output(kBuffer);
  bool in_member = true;  // the first header is required
  for (;;) {
    ASSIGN_OR_RETURN(const size_t n, Read(in, input));
    if (n == 0) break;
    z->next_in = input.data();
    z->avail_in = static_cast<uInt>(n);
    // A full output buffer may hide more output, so go on until the input is used up and the output
    // is not.
    do {
      if (!in_member) {
        if (z->avail_in == 0) break;
        ::inflateReset(z.get());
        in_member = true;
      }
      z->next_out = output.data();
      z->avail_out = static_cast<uInt>(output.size());
      const int status = ::inflate(z.get(), Z_NO_FLUSH);
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
        return InvalidArgument(StrCat("gzip: ", z->msg != nullptr ? z->msg : "damaged data"));
      }
      RETURN_IF_ERROR(Write(out, output.data(), output.size() - z->avail_out));
      if (status == Z_STREAM_END) in_member = false;
    } while (z->avail_in > 0 || z->avail_out == 0);
  }
  if (in_member) return InvalidArgument("gzip: data ends early");
  return {};
}

Result<void> InflateZstd(int in, int out) {
  const std::unique_ptr<ZSTD_DStream, ZstdFree> z(::ZSTD_createDStream());
  if (z == nullptr) return Internal("zstd: no memory");
  ::ZSTD_DCtx_setParameter(z.get(), ZSTD_d_windowLogMax, kMaxZstdWindowLog);
  std::vector<unsigned char> input(kBuffer);
  std::vector<unsigned char> output(kBuffer);
  size_t wanted = 1;  // 0 exactly at the end of a frame
  for (;;) {
    ASSIGN_OR_RETURN(const size_t n, Read(in, input));
    if (n == 0) break;
    ZSTD_inBuffer source{input.data(), n, 0};
    bool more = true;
    while (source.pos < source.size || more) {
      ZSTD_outBuffer target{output.data(), output.size(), 0};
      const size_t before = source.pos;
      const size_t status = ::ZSTD_decompressStream(z.get(), &target, &source);
      if (::ZSTD_isError(status) != 0) {
        return InvalidArgument(StrCat("zstd: ", ::ZSTD_getErrorName(status)));
      }
      // At the end of the input a call without progress asks for the next frame: not a new state.
      if (source.pos != before || target.pos != 0) wanted = status;
      RETURN_IF_ERROR(Write(out, output.data(), target.pos));
      more = target.pos == output.size();
    }
  }
  if (wanted != 0) return InvalidArgument("zstd: data ends early");
  return {};
}

}  // namespace holdfast::runtime::unpack
