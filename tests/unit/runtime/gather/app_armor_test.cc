// SPDX-License-Identifier: Apache-2.0
#include "runtime/gather/app_armor.h"

#include <gtest/gtest.h>

namespace holdfast::runtime {
namespace {

TEST(AppArmorListTest, OnlyAWholeNameIsOne) {
  const char* list =
      "docker-default (enforce)\nholdfast-default (enforce)\na b (c) (complain)\n/usr/sbin/x//sub "
      "(unconfined)";
  for (const char* name : {"docker-default", "holdfast-default", "a b (c)", "/usr/sbin/x//sub"}) {
    EXPECT_TRUE(ListsAppArmorProfile(list, name)) << name;
  }
  for (const char* name : {"default", "holdfast", "a b", "enforce", "", "/usr/sbin/x"}) {
    EXPECT_FALSE(ListsAppArmorProfile(list, name)) << name;
  }
  EXPECT_FALSE(ListsAppArmorProfile("", "docker-default"));
}

}  // namespace
}  // namespace holdfast::runtime
