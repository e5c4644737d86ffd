// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/expansion.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace holdfast::agent::kube {
namespace {

TEST(ExpansionTest, FollowsKubernetesSyntax) {
  const std::map<std::string, std::string> vars = {{"A", "1"}, {"B", "$(A)"}};
  EXPECT_EQ(Expand("$(A)$(A)", vars), "11");
  EXPECT_EQ(Expand("$$(A) $$$(A)", vars), "$(A) $1");
  EXPECT_EQ(Expand("$(B)", vars), "$(A)") << "not twice";
  EXPECT_EQ(Expand("$(C) $( $A $", vars), "$(C) $( $A $");
}

}  // namespace
}  // namespace holdfast::agent::kube
