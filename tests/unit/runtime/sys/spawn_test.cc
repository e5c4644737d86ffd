// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {
namespace {

int ExitCodeOf(const std::string& script, const ChildFds& fds) {
  const auto pid = Spawn({"sh", "-c", script}, fds, environ);
  EXPECT_TRUE(pid);
  int status = 0;
  EXPECT_EQ(::waitpid(*pid, &status, 0), *pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// As libraries do it, without O_CLOEXEC.
TEST(SpawnTest, TheChildHasWhatItIsGivenAndNothingElse) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd low(::open("/dev/null", O_RDONLY));
  const UniqueFd high(::fcntl(null.get(), F_DUPFD, 200));
  const std::string is_there = StrCat("test -e /proc/$$/fd/", high.get());
  EXPECT_EQ(ExitCodeOf(is_there, {null.get(), null.get(), null.get()}), 1);
  const std::string only_three =
      StrCat("test -e /proc/$$/fd/3 && ! test -e /proc/$$/fd/4 && ! ", is_there);
  EXPECT_EQ(ExitCodeOf(only_three, {null.get(), null.get(), null.get(), high.get()}), 0);
}

}  // namespace
}  // namespace holdfast::sys
