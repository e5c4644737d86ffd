// SPDX-License-Identifier: Apache-2.0
// The node agent: the only place where the parts are put together.
#pragma once

#include <sys/resource.h>

#include <functional>
#include <memory>

#include "agent/config/agent_config.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct AgentParts;

// Used by the main thread alone.
class Agent {
 public:
  // `read_config` reads the same flags and file once more. `core_limit`: the limit of core dumps that the keeper is to have.
  Agent(AgentConfig config, std::function<Result<AgentConfig>()> read_config,
        const rlimit& core_limit);
  ~Agent();

  // Once. kResourceExhausted (threads, descriptors, memory, space) may pass.
  Result<void> Open();
  // Once opened; returns after SIGTERM or SIGINT. SIGHUP: proxyMode is taken over, the rest is for the next start.
  void Serve();

 private:
  std::unique_ptr<AgentParts> parts_;
};

}  // namespace holdfast::agent
