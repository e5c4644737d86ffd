// SPDX-License-Identifier: Apache-2.0
// What this node is: capacity, addresses, files that pods see, and the Node object made of it.
// Thread-safe: no state. Reads small files of /proc and /etc; sends nothing.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "agent/config/agent_config.h"
#include "agent/pod/admit/node_offer.h"
#include "agent/pod/spec/node_environment.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/node.pb.h"

namespace holdfast::agent {

std::shared_ptr<const NodeEnvironment> ReadNodeEnvironment(const AgentConfig& config);

// What the node is to a pod that wants a place on it: labels, room, what it may allow.
std::shared_ptr<const NodeOffer> ReadNodeOffer(const AgentConfig& config);

// The same as `read` gives, read again when it is older than ten seconds. Thread-safe.
template <class Value>
class Recent {
 public:
  using Reader = std::shared_ptr<const Value> (*)(const AgentConfig&);
  Recent(Reader read, const AgentConfig& config, const Clock& clock)
      : read_(read), config_(config), clock_(clock) {}

  std::shared_ptr<const Value> Get() {
    const std::lock_guard lock(mutex_);
    const BootTime now = clock_.Boot();
    if (value_ == nullptr || now - read_at_ > std::chrono::seconds(10)) {
      value_ = read_(config_);
      read_at_ = now;
    }
    return value_;
  }

 private:
  const Reader read_;
  const AgentConfig& config_;
  const Clock& clock_;
  std::mutex mutex_;
  BootTime read_at_;
  std::shared_ptr<const Value> value_;
};

class NodeEnvironmentCache : public Recent<NodeEnvironment> {
 public:
  NodeEnvironmentCache(const AgentConfig& config, const Clock& clock)
      : Recent(ReadNodeEnvironment, config, clock) {}
};
class NodeOfferCache : public Recent<NodeOffer> {
 public:
  NodeOfferCache(const AgentConfig& config, const Clock& clock)
      : Recent(ReadNodeOffer, config, clock) {}
};

// What the machine has.
NodeAmounts NodeCapacity();
// The same, but no more than the cgroups above the pods allow.
NodeAmounts CapacityForPods(const model::Instance& instance);

// A Node as a kubelet without a control plane would describe itself.
k8s::io::api::core::v1::Node MakeNode(const AgentConfig& config, std::string_view version,
                                      WallTime started, WallTime now);

}  // namespace holdfast::agent
