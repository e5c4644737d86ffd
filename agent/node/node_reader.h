// SPDX-License-Identifier: Apache-2.0
// What this node is: capacity, addresses, files that pods see, and the Node object made of it. Reads small files of /proc,
// /sys and /etc, and waits for the file system of root_dir; sends nothing.
#pragma once

#include <chrono>
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
#include "runtime/cgroup/layout.h"

namespace holdfast::agent {

// What the machine has. Thread-safe, as all functions here.
NodeAmounts NodeCapacity();
// The same, but no more than the cgroups above the pods allow.
NodeAmounts CapacityForPods(const model::Instance& instance);

// What seldom changes while a kernel runs.
struct StandingFacts {
  Result<runtime::CgroupLayout> cgroups;  // an error where they cannot be seen
  NodeMachine machine;
  kube::ResourceList huge_pages;  // "hugepages-2Mi" and the others, with what is set aside for them
};

// The node as it was at one time.
struct NodeReading {
  std::shared_ptr<const StandingFacts> standing;
  std::shared_ptr<const NodeEnvironment> environment;
  // What it is to a pod that wants a place on it: labels, room, what it may allow, pressures.
  std::shared_ptr<const NodeOffer> offer;
  // What the Node object is made of, without images.
  std::shared_ptr<const NodeDescription> description;
};

// Reads it again and again. One thread at a time.
class NodeReader {
 public:
  // How long standing facts stand: cAdvisor's update_machine_info_interval, a kubelet's.
  static constexpr std::chrono::minutes kStanding{5};

  // `app_armor` keeps the profile of containers that name none; null: without it they have none.
  NodeReader(AgentConfig config, std::string version, std::unique_ptr<DefaultAppArmor> app_armor);

  std::shared_ptr<const NodeReading> Read(BootTime now);

 private:
  std::shared_ptr<const StandingFacts> Standing(BootTime now);

  const AgentConfig config_;
  const std::string version_;
  const std::unique_ptr<DefaultAppArmor> app_armor_;
  SteadyPressure pressure_;  // remembers from one reading to the next
  std::shared_ptr<const StandingFacts> standing_;
  BootTime standing_since_;
};

// A Node as a kubelet without a control plane would describe itself.
k8s::io::api::core::v1::Node MakeNode(const AgentConfig& config, std::string_view version,
                                      const ReadyState& ready, WallTime started, WallTime now);

}  // namespace holdfast::agent
