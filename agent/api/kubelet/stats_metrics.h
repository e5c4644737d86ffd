// SPDX-License-Identifier: Apache-2.0
// /metrics/resource, /metrics/cadvisor and a part of /metrics: what was used, in Prometheus' text format, by a kubelet's and cAdvisor's
// names. Times are those of the sample. Pure. Source: feature-map 1.16.2, 1.16.3.
#pragma once

#include <string>

#include "agent/base/metrics_text.h"
#include "agent/stats/node_stats.h"

namespace holdfast::agent::api {

// What metrics-server reads.
std::string ResourceMetrics(const NodeSample& sample);

// Of /metrics: what is left of the volumes of claims.
void AddVolumeMetrics(const NodeSample& sample, MetricsText& text);

struct MachineSpec {
  int64_t cores = 0;
  uint64_t memory_bytes = 0, swap_bytes = 0;
  std::string machine_id, system_uuid, boot_id, kernel_version, os_version, version;
};
std::string CadvisorMetrics(const NodeSample& sample, const MachineSpec& machine);

}  // namespace holdfast::agent::api
