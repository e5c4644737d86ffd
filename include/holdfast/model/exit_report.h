// SPDX-License-Identifier: Apache-2.0
// ExitReport: how a container ended. Not an Error: a container that exits 1 is no failure of ours.
#pragma once

#include <cstdint>

#include "holdfast/base/clock.h"

namespace holdfast::model {

struct ExitReport {
  // Who still knew the status. kLost is reported as ContainerStatusUnknown (137).
  enum class Source : uint8_t { kWaited, kPidfdInfo, kLost, kProcessEvent };

  Source source = Source::kWaited;
  int32_t exit_code = 0;  // as a shell shows it: 128 + signal when a signal ended it
  int32_t signal = 0;     // 0 unless a signal ended it
  bool oom_killed = false;
  WallTime finished_at;

  bool operator==(const ExitReport&) const = default;
};

}  // namespace holdfast::model
