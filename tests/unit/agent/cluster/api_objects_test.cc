// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/api_objects.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

TEST(ApiObjects, VersionsAreComparedAsNumbers) {
  EXPECT_TRUE(IsOlder("9", "10"));
  EXPECT_FALSE(IsOlder("10", "9"));
  EXPECT_FALSE(IsOlder("10", "10"));
  EXPECT_FALSE(IsOlder("", "10"));
  EXPECT_FALSE(IsOlder("a", "b"));
}

}  // namespace
}  // namespace holdfast::agent
