// SPDX-License-Identifier: Apache-2.0
// How many instances of inotify(7) this process may have, as when a container of its user has taken all others: in a
// user namespace of its own, so for processes of one thread, such as the children of EXPECT_EXIT.
// Source: namespaces(7), /proc/sys/user.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <fstream>
#include <functional>

namespace holdfast::test_support {

inline void LimitInotify(int instances) {
  static const bool is_alone = ::unshare(CLONE_NEWUSER) == 0;
  ASSERT_TRUE(is_alone);
  std::ofstream limit("/proc/sys/user/max_inotify_instances");
  ASSERT_TRUE(limit << instances << std::flush);
}

// In a child without any; `body` may allow some with LimitInotify.
inline void WithoutInotify(const std::function<void()>& body) {
  EXPECT_EXIT(
      {
        LimitInotify(0);
        body();
        std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace holdfast::test_support
