// SPDX-License-Identifier: Apache-2.0
// /stats/summary: what was used, as JSON of a kubelet's stats API (v1alpha1 Summary). Pure. Source: feature-map 1.16.1.
#pragma once

#include <string>

#include "agent/stats/node_stats.h"

namespace holdfast::agent::api {

std::string SummaryJson(const NodeSample& sample, const std::string& node_name,
                        bool only_cpu_and_memory);

}  // namespace holdfast::agent::api
