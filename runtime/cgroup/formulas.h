// SPDX-License-Identifier: Apache-2.0
// Kubernetes' formulas from CPU requests and limits to cgroup values. Pure.
// Source: feature-map 2.4.4 to 2.4.6; the weight is the formula of runc 1.3.2 and crun 1.23.
#pragma once

#include <cstdint>

namespace holdfast::runtime {

inline constexpr uint64_t kMinCpuShares = 2;
inline constexpr uint64_t kMaxCpuShares = 262144;
inline constexpr uint64_t kCpuPeriodMicros = 100000;
inline constexpr uint64_t kMinCpuQuotaMicros = 1000;

// cgroup v1 cpu.shares: 1000 milli are 1024; clamped; 0 or less gives the minimum.
uint64_t CpuSharesFromMilli(int64_t milli);
// cgroup v2 cpu.weight: 1 CPU (1024 shares) is 100, the ends are 1 and 10000.
uint64_t CpuWeightFromShares(uint64_t shares);
// Microseconds per period of kCpuPeriodMicros; `milli` is above 0.
uint64_t CpuQuotaFromMilli(int64_t milli);

}  // namespace holdfast::runtime
