// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/wakeup.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace holdfast::sys {

Result<Wakeup> Wakeup::Make() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return Error::FromErrno(errno, "eventfd");
  return Wakeup(std::move(fd));
}

void Wakeup::Set() const {
  const uint64_t one = 1;
  // EAGAIN, 2^64 sets later, is a wake-up as well.
  (void)!::write(fd_.get(), &one, sizeof one);
}

void Wakeup::Clear() const {
  uint64_t count = 0;
  // EAGAIN: it was not set.
  (void)!::read(fd_.get(), &count, sizeof count);
}

}  // namespace holdfast::sys
