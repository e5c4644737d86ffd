// SPDX-License-Identifier: Apache-2.0
// NodeView: this node as the API server has it. Thread-safe; nothing blocks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"

namespace holdfast::agent {

struct NodeFact {
  std::string name;
  std::string uid;   // "" while the Node is deleted at the server
  std::string zone;  // topology.kubernetes.io/zone
  std::map<std::string, std::string> labels;
  std::vector<Cidr> pod_ranges;  // one per family; none while nobody gave any
  bool operator==(const NodeFact&) const = default;
};

class NodeView {
 public:
  virtual ~NodeView() = default;
  // Null: never seen.
  virtual std::shared_ptr<const NodeFact> Get() const = 0;
  // Of a part without which the node takes no pods, "runtime" or "network". `problem` "" is well.
  virtual void SetReadyInput(const std::string& input, const std::string& problem) = 0;
  // On the API thread, without a lock held; must not block. {} ends that.
  virtual void SetListener(std::function<void()> changed) = 0;
};

}  // namespace holdfast::agent
