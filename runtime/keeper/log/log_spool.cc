// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/log/log_spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::runtime::keeper {

Result<void> LogSpool::EnsureOpen() {
  if (fd_) return {};
  // Not O_APPEND: splice(2) refuses such a file.
  ASSIGN_OR_RETURN(fd_, sys::OpenAt(dir_, name_, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  return {};
}

Result<LogSpool::Taken> LogSpool::TakeFrom(int pipe, size_t limit, off64_t* cell) {
  RETURN_IF_ERROR(EnsureOpen());
  const ssize_t n =
      ::splice(pipe, nullptr, fd_.get(), cell, limit, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (n > 0) return Taken::kSome;
  if (n == 0) return Taken::kEnd;
  if (errno == EAGAIN || errno == EINTR) return Taken::kNothing;
  return Error::FromErrno(errno, StrCat("splice into ", name_));
}

Result<void> LogSpool::Read(uint64_t offset, std::span<char> out) {
  RETURN_IF_ERROR(EnsureOpen());
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::FromErrno(errno, StrCat("read ", name_));
    if (n == 0) return Internal(StrCat("read ", name_, ": it is too short"));
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Result<void> LogSpool::Write(uint64_t offset, std::span<const char> bytes) {
  RETURN_IF_ERROR(EnsureOpen());
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::FromErrno(errno, StrCat("write ", name_));
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Result<void> LogSpool::Truncate(uint64_t size) {
  RETURN_IF_ERROR(EnsureOpen());
  if (::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0) return {};
  return Error::FromErrno(errno, StrCat("truncate ", name_));
}

Result<uint64_t> LogSpool::FileSize() {
  RETURN_IF_ERROR(EnsureOpen());
  struct stat st{};
  if (::fstat(fd_.get(), &st) != 0) return Error::FromErrno(errno, StrCat("fstat ", name_));
  return static_cast<uint64_t>(st.st_size);
}

}  // namespace holdfast::runtime::keeper
