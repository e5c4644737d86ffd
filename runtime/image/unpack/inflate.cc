// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/inflate.h"

#include <isa-l/igzip_lib.h>
#include <unistd.h>
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

struct ZstdFree {
  void operator()(ZSTD_DStream* z) const { ::ZSTD_freeDStream(z); }
};

// One gzip member after another, as their bytes come.
class GzipStream {
 public:
  GzipStream() : output_(kBuffer) {
    ::isal_inflate_init(state_.get());
    BeginMember();
  }

  Result<void> Take(std::vector<unsigned char>& input, size_t size, int out) {
    state_->next_in = input.data();
    state_->avail_in = static_cast<uint32_t>(size);
    while (true) {
      if (place_ == Place::kBetween) {
        if (state_->avail_in == 0) return {};
        BeginMember();
      }
      if (place_ == Place::kHeader) {
        const int status = ::isal_read_gzip_header(state_.get(), &header_);
        if (status == ISAL_END_INPUT) return {};
        if (status != ISAL_DECOMP_OK) return Damaged(status);
        place_ = Place::kBody;
      }
      ASSIGN_OR_RETURN(const bool more, Inflate(out));
      if (!more) return {};
    }
  }

  bool IsWhole() const { return place_ == Place::kBetween; }

 private:
  enum class Place : uint8_t { kHeader, kBody, kBetween };

  void BeginMember() {
    ::isal_inflate_reset(state_.get());
    // The header is read apart: it may come in pieces. Checksum and length are verified.
    state_->crc_flag = ISAL_GZIP_NO_HDR_VER;
    ::isal_gzip_header_init(&header_);
    place_ = Place::kHeader;
  }

  // One buffer of output; whether there is more to do without new input.
  Result<bool> Inflate(int out) {
    const uint32_t had = state_->avail_in;
    state_->next_out = output_.data();
    state_->avail_out = static_cast<uint32_t>(output_.size());
    const int status = ::isal_inflate(state_.get());
    if (status < 0 || status == ISAL_NEED_DICT) return Damaged(status);
    const size_t made = output_.size() - state_->avail_out;
    RETURN_IF_ERROR(Write(out, output_.data(), made));
    if (state_->block_state == ISAL_BLOCK_FINISH) {
      place_ = Place::kBetween;
      return true;
    }
    if (made == 0 && state_->avail_in == had && had > 0) return Damaged(ISAL_INVALID_BLOCK);
    return state_->avail_in > 0 || state_->avail_out == 0;
  }

  static Error Damaged(int status) {
    switch (status) {
      case ISAL_INVALID_WRAPPER:
        return InvalidArgument("gzip: incorrect header check");
      case ISAL_UNSUPPORTED_METHOD:
        return InvalidArgument("gzip: unknown compression method");
      case ISAL_INCORRECT_CHECKSUM:
        return InvalidArgument("gzip: incorrect checksum or length");
      case ISAL_INVALID_LOOKBACK:
        return InvalidArgument("gzip: invalid distance too far back");
      default:
        return InvalidArgument("gzip: damaged data");
    }
  }

  const std::unique_ptr<inflate_state> state_ = std::make_unique<inflate_state>();
  isal_gzip_header header_{};
  Place place_ = Place::kHeader;
  std::vector<unsigned char> output_;
};

}  // namespace

Result<void> InflateGzip(int in, int out) {
  GzipStream gzip;
  std::vector<unsigned char> input(kBuffer);
  while (true) {
    ASSIGN_OR_RETURN(const size_t n, Read(in, input));
    if (n == 0) break;
    RETURN_IF_ERROR(gzip.Take(input, n, out));
  }
  if (!gzip.IsWhole()) return InvalidArgument("gzip: data ends early");
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
