// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/log/attachments.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace holdfast::runtime::keeper {
namespace {

constexpr size_t kCopy = 64 * 1024;

bool IsEmpty(int pipe) {
  int waiting = 0;
  return ::ioctl(pipe, FIONREAD, &waiting) == 0 && waiting == 0;
}

}  // namespace

Attachments::Allowance Attachments::Copy(int pipe) {
  Allowance allowance{kCopy, false, -1};
  for (Reader& reader : all_) {
    if (reader.ahead == 0) {
      const ssize_t copied = ::tee(pipe, reader.to.get(), kCopy, SPLICE_F_NONBLOCK);
      if (copied == 0) return {0, true, -1};
      const bool wait = copied < 0 && (errno == EAGAIN || errno == EINTR);
      if (wait) return {0, false, IsEmpty(pipe) ? -1 : reader.to.get()};
      if (copied < 0) continue;  // EPIPE: it has gone
      reader.ahead = static_cast<size_t>(copied);
    }
    allowance.bytes = std::min(allowance.bytes, reader.ahead);
  }
  return allowance;
}

void Attachments::Taken(size_t bytes) {
  for (Reader& reader : all_) reader.ahead -= std::min(reader.ahead, bytes);
}

void Attachments::Drop(int to) {
  std::erase_if(all_, [to](const Reader& reader) { return reader.to.get() == to; });
}

std::vector<UniqueFd> Attachments::Release() {
  std::vector<UniqueFd> readers;
  for (Reader& reader : std::exchange(all_, {})) readers.push_back(std::move(reader.to));
  return readers;
}

}  // namespace holdfast::runtime::keeper
