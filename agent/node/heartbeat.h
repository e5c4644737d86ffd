// SPDX-License-Identifier: Apache-2.0
// Heartbeat: renews this node's Lease each ten seconds; nothing else proves to a control plane that the node lives. It
// shares no lock with anybody. Its Api may be one of its own, so that nothing it waits for delays it. Source:
// control-plane.md 4.7, 4.9; join.md, traps 1, 2 and 44.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/cluster/api.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

struct HeartbeatOptions {
  std::string node_name;
  // Two heartbeats in a row that did not arrive: all connections of its own Api are closed, and those of these, which
  // are borrowed.
  std::vector<Api*> others;
  std::function<void(const std::string& line)>
      log;  // when it begins to fail, and when it works again
};

class Heartbeat {
 public:
  // `api` and `clock` are borrowed. Renews nothing before it knows the Node.
  Heartbeat(Api& api, const Clock& clock, HeartbeatOptions options);
  // On the API thread, or after it ended. The Lease is left to run out.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // Of the Node that owns the Lease; "": it is deleted, and there is to be no Lease. From any thread.
  void SetNodeUid(const std::string& uid);

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // shared with what the API thread runs of it
};

}  // namespace holdfast::agent
