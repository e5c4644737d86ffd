// SPDX-License-Identifier: Apache-2.0
// FullDisk: while it lives, no file of this process grows beyond `size`, as on a disk without
// space: what fits is written, then write(2) fails (EFBIG). One at a time. setrlimit(2).
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

namespace holdfast::test_support {

class FullDisk {
 public:
  explicit FullDisk(rlim_t size) : former_handler_(::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &former_), 0);
    const rlimit now{size, former_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &former_), 0);
    (void)::signal(SIGXFSZ, former_handler_);  // fails for a number that is no signal's only
  }

 private:
  sighandler_t former_handler_;
  rlimit former_{};
};

}  // namespace holdfast::test_support
