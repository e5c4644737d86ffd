// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/formulas.h"

#include <gtest/gtest.h>

#include "runtime/cgroup/tree.h"

namespace holdfast::runtime {
namespace {

TEST(FormulasTest, SharesFollowKubernetes) {
  const struct {
    int64_t milli;
    uint64_t shares;
  } rows[] = {{-5, 2},          {0, 2},           {1, 2},           {2, 2},
              {3, 3},           {100, 102},       {1000, 1024},     {1500, 1536},
              {256000, 262144}, {300000, 262144}, {255999, 262142}, {INT64_MAX, 262144}};
  for (const auto& row : rows) EXPECT_EQ(CpuSharesFromMilli(row.milli), row.shares) << row.milli;
}

TEST(FormulasTest, WeightIsTheCurrentFormulaNotTheOldOne) {
  const struct {
    uint64_t shares;
    uint64_t weight;
  } rows[] = {{0, 1},      {2, 1},      {102, 17},       {512, 59},
              {1024, 100}, {2048, 174}, {262144, 10000}, {400000, 10000}};
  for (const auto& row : rows) EXPECT_EQ(CpuWeightFromShares(row.shares), row.weight) << row.shares;
}

TEST(FormulasTest, WeightNeverFallsWhenSharesRise) {
  uint64_t last = 0;
  for (uint64_t shares = 0; shares <= 262144; shares += 7) {
    const uint64_t weight = CpuWeightFromShares(shares);
    ASSERT_GE(weight, last) << shares;
    ASSERT_GE(weight, 1u);
    ASSERT_LE(weight, 10000u);
    last = weight;
  }
}

TEST(FormulasTest, QuotaHasAFloorOfOneMillisecond) {
  EXPECT_EQ(CpuQuotaFromMilli(1), 1000u);
  EXPECT_EQ(CpuQuotaFromMilli(9), 1000u);
  EXPECT_EQ(CpuQuotaFromMilli(11), 1100u);
  EXPECT_EQ(CpuQuotaFromMilli(500), 50000u);
  EXPECT_EQ(CpuQuotaFromMilli(2500), 250000u);
}

TEST(FormulasTest, AbsentLimitsStayAbsent) {
  const CgroupLimits limits = LimitsFromResources({});
  EXPECT_EQ(limits.cpu_shares, 2u);
  EXPECT_FALSE(limits.cpu_quota_us || limits.memory_bytes || limits.pids);
}

}  // namespace
}  // namespace holdfast::runtime
