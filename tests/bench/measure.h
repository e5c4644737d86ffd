// SPDX-License-Identifier: Apache-2.0
// What the benchmarks share: time, samples and how they are written down. Not for tests.
#pragma once

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/strings.h"

namespace holdfast::bench {

using Clock = std::chrono::steady_clock;

inline double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

inline long NanosOf(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000L + now.tv_nsec;
}

// A benchmark that cannot go on says why and ends.
[[noreturn]] inline void Die(const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.c_str());
  std::exit(1);
}

template <class T>
T OrDie(Result<T> result) {
  if (!result) Die(result.error().message());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

struct Percentiles {
  double p50 = 0;
  double p99 = 0;
};

// `samples` must not be empty.
inline Percentiles Of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples[samples.size() / 2], samples[samples.size() * 99 / 100]};
}

// Of rates, where the bad end is the low one.
inline Percentiles OfRates(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples[samples.size() / 2], samples[samples.size() / 100]};
}

inline std::string Figures(const Percentiles& p) {
  return StrCat("{\"p50\":", p.p50, ",\"p99\":", p.p99, "}");
}

}  // namespace holdfast::bench
