// SPDX-License-Identifier: Apache-2.0
// Compressing a rotated log file in a child of the lowest priority, so that the loop never waits.
#pragma once

#include <sys/types.h>

#include <string>

#include "holdfast/base/result.h"

namespace holdfast::runtime::keeper {

// Forks a child that writes <stem>.tmp, renames it to <stem>.gz and unlinks <stem>, all in the
// directory `dir` (open for reading), then exits. It ends with its parent. The caller reaps it.
Result<pid_t> StartCompression(int dir, const std::string& stem);

}  // namespace holdfast::runtime::keeper
