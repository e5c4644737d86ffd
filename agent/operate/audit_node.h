// SPDX-License-Identifier: Apache-2.0
// What is on the node and belongs to no pod, of every part of the agent.
#pragma once

#include <vector>

#include "agent/leftovers/leftover_sweeper.h"
#include "agent/pod/execute/pod_table.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/interfaces/pod_network.h"
#include "holdfast/model/instance.h"

namespace holdfast::agent {

// Borrowed. Only the pod table can keep a pod that is just being made from counting as a leftover.
struct AuditedParts {
  const model::Instance& instance;
  const PodTable& table;
  const PodView& pods;
  ContainerRuntime& runtime;
  PodNetwork& network;
  LeftoverSweeper& leftovers;
};

// With `repair` it is removed. May block. Thread-safe.
Result<std::vector<Leftover>> AuditNode(const AuditedParts& parts, bool repair);

}  // namespace holdfast::agent
