// SPDX-License-Identifier: Apache-2.0
// How many instances of inotify(7) a process may have, as when a container of its user has taken all others: in a user
// namespace of its own. Source: namespaces(7), /proc/sys/user.
#pragma once

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>

namespace holdfast::test_support {

// Within WithoutInotify().
inline void LimitInotify(int instances) {
  std::ofstream limit("/proc/sys/user/max_inotify_instances");
  ASSERT_TRUE(limit << instances << std::flush);
}

// In a child that has none; `body` may allow some with LimitInotify. Before there are threads of the test's own. (The call
// and not fork: only the kernel's makes the namespace at once, which a sanitizer's own thread would keep it from later.)
inline void WithoutInotify(const std::function<void()>& body) {
  (void)std::fflush(stdout);
  const long child = ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, 0);
  ASSERT_GE(child, 0);
  if (child == 0) {
    LimitInotify(0);
    body();
    (void)std::fflush(stdout);
    std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(static_cast<pid_t>(child), &status, 0), child);
  EXPECT_EQ(status, 0) << "what failed in the child stands above";
}

}  // namespace holdfast::test_support
