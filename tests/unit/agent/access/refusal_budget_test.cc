// SPDX-License-Identifier: Apache-2.0
#include "agent/access/refusal_budget.h"

#include <gtest/gtest.h>

namespace holdfast::agent::access {
namespace {

BootTime At(int64_t seconds) { return BootTime() + std::chrono::seconds(seconds); }

TEST(RefusalBudgetTest, SomeAtOnceThenOneASecondAndTheRestIsCounted) {
  RefusalBudget budget;
  int written = 0;
  for (int i = 0; i < 1000; ++i) written += budget.Take(1000, At(5)) == 0u ? 1 : 0;
  EXPECT_EQ(written, 20);
  EXPECT_EQ(budget.Take(1000, At(6)), 980u);
  EXPECT_EQ(budget.Take(1000, At(6)), std::nullopt);
  EXPECT_EQ(budget.Take(1000, At(8)), 1u);
  EXPECT_EQ(budget.Take(1000, At(8)), 0u);
  EXPECT_EQ(budget.Take(1000, At(8)), std::nullopt);
}

TEST(RefusalBudgetTest, EachUserHasHisOwn) {
  RefusalBudget budget;
  for (int i = 0; i < 1000; ++i) (void)budget.Take(1000, At(0));
  EXPECT_EQ(budget.Take(1001, At(0)), 0u);
  for (uid_t uid = 2000; uid < 5000; ++uid) (void)budget.Take(uid, At(0));
  EXPECT_EQ(budget.Take(9999, At(0)), std::nullopt) << "too many users share one";
}

}  // namespace
}  // namespace holdfast::agent::access
