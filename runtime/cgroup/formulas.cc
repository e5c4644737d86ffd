// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/formulas.h"

#include <algorithm>
#include <cmath>

namespace holdfast::runtime {

uint64_t CpuSharesFromMilli(int64_t milli) {
  if (milli <= 0) return kMinCpuShares;
  // Above this the product would overflow, and the result is clamped anyway.
  if (milli > static_cast<int64_t>(kMaxCpuShares) * 1000) return kMaxCpuShares;
  return std::clamp(static_cast<uint64_t>(milli) * 1024 / 1000, kMinCpuShares, kMaxCpuShares);
}

uint64_t CpuWeightFromShares(uint64_t shares) {
  if (shares <= kMinCpuShares) return 1;
  if (shares >= kMaxCpuShares) return 10000;
  const double l = std::log2(static_cast<double>(shares));
  const double exponent = (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0;
  return static_cast<uint64_t>(std::ceil(std::pow(10.0, exponent)));
}

uint64_t CpuQuotaFromMilli(int64_t milli) {
  if (milli <= 0) return kMinCpuQuotaMicros;
  return std::max(static_cast<uint64_t>(milli) * kCpuPeriodMicros / 1000, kMinCpuQuotaMicros);
}

}  // namespace holdfast::runtime
