// SPDX-License-Identifier: Apache-2.0
// Wakeup: makes a poll(2) or epoll(7) of another thread return. Thread-safe; Set() is
// async-signal-safe. Source: eventfd(2).
#pragma once

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

class Wakeup {
 public:
  Wakeup() = default;  // nobody waits yet: valid() is false
  static Result<Wakeup> Make();

  bool valid() const { return fd_.valid(); }
  // Readable from Set() to Clear().
  int fd() const { return fd_.get(); }
  void Set() const;
  void Clear() const;

 private:
  explicit Wakeup(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace holdfast::sys
