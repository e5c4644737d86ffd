// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/pull_rate.h"

#include <algorithm>

namespace holdfast::runtime {

bool PullRate::TryTake(Time now) {
  if (per_second_ == 0) return true;
  const std::lock_guard lock(mutex_);
  const std::chrono::duration<double> since = now - last_;
  last_ = now;
  left_ = std::min(burst_, left_ + since.count() * per_second_);
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

}  // namespace holdfast::runtime
