// SPDX-License-Identifier: Apache-2.0
// CsiNode: the CSINode object of this node, which tells what storage plugins are on it, and what the Node itself says of
// them: their ids of this node (an annotation) and their topology (labels). It belongs to the Node and is made again with
// it. A plugin that is there and was not heard of yet stays, since a new agent hears of them one by one. On the API thread
// but for SetDrivers(). Source: control-plane.md 4.9, feature-map.md 1.17.8.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/cluster/api.h"

namespace holdfast::agent {

struct CsiNodeDriver {
  std::string name, node_id;
  int64_t most_volumes = 0;  // 0: it does not say
  std::map<std::string, std::string> topology;
  bool operator==(const CsiNodeDriver&) const = default;
};

class CsiNode {
 public:
  // `log`: one line per kind of failure. `api` is borrowed.
  CsiNode(Api& api, std::string node_name, std::function<void(const std::string&)> log);
  // On the API thread, or after it ended.
  ~CsiNode();
  CsiNode(const CsiNode&) = delete;
  CsiNode& operator=(const CsiNode&) = delete;

  // "" while there is no Node.
  void SetNodeUid(const std::string& uid);
  // All that are registered now. From any thread.
  void SetDrivers(std::vector<CsiNodeDriver> drivers);

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // shared with what the API thread runs of it
};

}  // namespace holdfast::agent
