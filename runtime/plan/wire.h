// SPDX-License-Identifier: Apache-2.0
// A plan as bytes, for the sealed memfd between agent and launcher. The format carries a version
// and is read by the same release only (agent and keeper upgrade together; an unknown version is
// kUnsupported). Linked into the static keeper: std only.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/base/result.h"
#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

inline constexpr size_t kMaxPlanBytes = 8u << 20;

std::string SerializePlan(const model::Plan& plan);

// `fd_count` is the number of descriptors that came along: an index outside them is refused, and so
// is everything truncated, too long, out of range or left over. Never trusts `bytes`.
Result<model::Plan> ParsePlan(std::string_view bytes, size_t fd_count);

}  // namespace holdfast::runtime
