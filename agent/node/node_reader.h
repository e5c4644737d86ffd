// SPDX-License-Identifier: Apache-2.0
// What this node is: capacity, addresses, files that pods see, and the Node object made of it.
// Thread-safe: no state. Reads small files of /proc and /etc; sends nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "agent/config/agent_config.h"
#include "agent/node/app_armor.h"
#include "agent/node/node_description.h"
#include "agent/node/node_pressure.h"
#include "agent/node/node_readiness.h"
#include "agent/pod/admit/node_offer.h"
#include "agent/pod/spec/node_environment.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/node.pb.h"

namespace holdfast::agent {

// What the machine has.
NodeAmounts NodeCapacity();
// The same, but no more than the cgroups above the pods allow.
NodeAmounts CapacityForPods(const model::Instance& instance);

// The node as it was at one time.
struct NodeReading {
  std::shared_ptr<const NodeEnvironment> environment;
  // What it is to a pod that wants a place on it: labels, room, what it may allow, pressures.
  std::shared_ptr<const NodeOffer> offer;
  // What the Node object is made of, without images.
  std::shared_ptr<const NodeDescription> description;
};
// Waits for the file system of root_dir.
// `steady`, where there is one, remembers pressures from one reading to the next; `app_armor` keeps the profile of
// containers that name none: without it they have none.
std::shared_ptr<const NodeReading> ReadNode(const AgentConfig& config, std::string_view version,
                                            SteadyPressure* steady = nullptr,
                                            DefaultAppArmor* app_armor = nullptr);

// A Node as a kubelet without a control plane would describe itself.
k8s::io::api::core::v1::Node MakeNode(const AgentConfig& config, std::string_view version,
                                      const ReadyState& ready, WallTime started, WallTime now);

}  // namespace holdfast::agent
