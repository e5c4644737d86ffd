// SPDX-License-Identifier: Apache-2.0
// What a plan must hold to be executed at all: ranges, absolute paths, required fields. The
// launcher checks every plan it is sent, so that no recipe step meets a value it was not written
// for.
#pragma once

#include "holdfast/base/result.h"
#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

// kInvalidArgument names the field. Thread-safe.
Result<void> CheckPlan(const model::Plan& plan);

}  // namespace holdfast::runtime
