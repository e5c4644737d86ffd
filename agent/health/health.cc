// SPDX-License-Identifier: Apache-2.0
#include "agent/health/health.h"

#include "agent/pod/execute/pod_table.h"

namespace holdfast::agent {

// The strand turns (the watchdog calls this on it), and the table's timers fire.
std::string UnhealthyBecause(const PodTable& pods) {
  return pods.IsHealthy() ? "" : "the pod table has not turned for minutes";
}

}  // namespace holdfast::agent
