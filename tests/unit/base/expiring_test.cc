// SPDX-License-Identifier: Apache-2.0
#include "holdfast/base/expiring.h"

#include <gtest/gtest.h>

#include <string>

namespace holdfast {
namespace {

struct Kept {
  int until = 0;
};

std::string Names(const std::map<std::string, Kept>& kept) {
  std::string names;
  for (const auto& [name, value] : kept) names += name;
  return names;
}

TEST(ExpiringTest, WhatIsOverGoesAndThenWhatIsOverFirst) {
  std::map<std::string, Kept> kept{{"a", {5}}, {"b", {9}}, {"c", {7}}};
  MakeRoom(kept, 3, 4, &Kept::until);
  EXPECT_EQ(Names(kept), "bc") << "nothing is over, and there was no room";
  MakeRoom(kept, 3, 7, &Kept::until);
  EXPECT_EQ(Names(kept), "b") << "at its time it is over";
  MakeRoom(kept, 3, 8, &Kept::until);
  EXPECT_EQ(Names(kept), "b");
}

}  // namespace
}  // namespace holdfast
