// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/common/messages.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace holdfast::runtime::keeper {
namespace {

TEST(LaunchFailureTest, TheStepIsSaidOnce) {
  EXPECT_EQ(
      (LaunchFailure{"exec", ENOENT, "exec: /bin/x: no such file", false}).ToError().message(),
      "exec: /bin/x: no such file");
  EXPECT_EQ((LaunchFailure{"mounts", ENOENT, "/data: no such file", false}).ToError().message(),
            "mounts: /data: no such file");
}

TEST(LaunchFailureTest, AKeeperThatIsAwayIsUnavailableAndNothingElseIs) {
  EXPECT_EQ((LaunchFailure{"keeper", 0, "connection refused", false}).ToError().code(),
            Code::kUnavailable);
  EXPECT_EQ((LaunchFailure{"exec", ENOENT, "no such file", false}).ToError().code(),
            Code::kNotFound);
  EXPECT_EQ((LaunchFailure{"exec", 0, "what", false}).ToError().code(), Code::kInternal);
}

}  // namespace
}  // namespace holdfast::runtime::keeper
