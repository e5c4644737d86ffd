// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/pod_status.h"

#include <algorithm>
#include <array>

namespace holdfast::agent::kube {

bool IsNodeCondition(std::string_view type) {
  static constexpr std::array<std::string_view, 8> kOurs = {"PodScheduled",
                                                            "PodReadyToStartContainers",
                                                            "Initialized",
                                                            "ContainersReady",
                                                            "Ready",
                                                            "PodResizePending",
                                                            "PodResizeInProgress",
                                                            "AllContainersRestarting"};
  return std::ranges::find(kOurs, type) != kOurs.end();
}

bool IsTerminalPhase(std::string_view phase) { return phase == "Succeeded" || phase == "Failed"; }

}  // namespace holdfast::agent::kube
