// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/log_spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr uint64_t kReleaseStep = 1u << 20;
constexpr uint64_t kPage = 4096;

}  // namespace

Result<void> LogSpool::Open() {
  RETURN_IF_ERROR(EnsureOpen());
  struct stat st{};
  if (::fstat(fd_.get(), &st) != 0) return Error::FromErrno(errno, StrCat("fstat ", name_));
  size_ = static_cast<uint64_t>(st.st_size);
  return {};
}

Result<void> LogSpool::EnsureOpen() {
  if (fd_) return {};
  // Not O_APPEND: splice(2) refuses such a file.
  ASSIGN_OR_RETURN(fd_, sys::OpenAt(dir_, name_, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  return {};
}

Result<LogSpool::Taken> LogSpool::TakeFrom(int pipe, size_t limit) {
  RETURN_IF_ERROR(EnsureOpen());
  off64_t offset = static_cast<off64_t>(size_);
  const ssize_t n =
      ::splice(pipe, nullptr, fd_.get(), &offset, limit, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (n > 0) {
    size_ += static_cast<uint64_t>(n);
    return Taken::kSome;
  }
  if (n == 0) return Taken::kEnd;
  if (errno == EAGAIN || errno == EINTR) return Taken::kNothing;
  return Error::FromErrno(errno, StrCat("splice into ", name_));
}

Result<void> LogSpool::Read(uint64_t begin, std::span<char> out) {
  RETURN_IF_ERROR(EnsureOpen());
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(begin));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::FromErrno(errno, StrCat("read ", name_));
    if (n == 0) return Internal(StrCat("read ", name_, ": it became shorter"));
    out = out.subspan(static_cast<size_t>(n));
    begin += static_cast<uint64_t>(n);
  }
  return {};
}

void LogSpool::Release(uint64_t done, bool all) {
  if (done < released_ + (all ? kPage : kReleaseStep)) return;
  if (!EnsureOpen()) return;
  // Past the size nothing is kept anyway, so the last page goes as well when everything is done.
  const uint64_t end = done == size_ ? (done + kPage - 1) / kPage * kPage : done / kPage * kPage;
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(released_ / kPage * kPage),
              static_cast<off_t>(end - released_ / kPage * kPage));
  released_ = done;
}

}  // namespace holdfast::runtime::keeper
