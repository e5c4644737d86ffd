// SPDX-License-Identifier: Apache-2.0
// RtnlWatch: tells that the node's addresses or default routes may have changed. A hint to look, no
// more. Bound to the network namespace of the thread that opened it. One thread at a time.
#pragma once

#include <utility>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

class RtnlWatch {
 public:
  static Result<RtnlWatch> Open();

  // Readable when there is something to Drain().
  int fd() const { return fd_.get(); }
  // Takes all that waits. True when an address or a default route came or went, or when
  // notifications were lost. Routes to pods are no news.
  Result<bool> Drain();

 private:
  explicit RtnlWatch(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace holdfast::sys
