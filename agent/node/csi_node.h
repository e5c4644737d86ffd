// SPDX-License-Identifier: Apache-2.0
// CsiNode: the CSINode object of this node, which tells what CSI drivers are on it: none. It belongs to the Node and is
// made again with it. On the API thread. Source: control-plane.md 4.9.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/cluster/api.h"

namespace holdfast::agent {

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

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // shared with what the API thread runs of it
};

}  // namespace holdfast::agent
