// SPDX-License-Identifier: Apache-2.0
// What every stream of one KubeletStreams shares, and what each is for it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "agent/access/audit.h"
#include "agent/operate/node_operations.h"
#include "agent/stream/descriptor_session.h"

namespace holdfast::agent::streams {

struct StreamContext {
  NodeOperations& node;
  access::AuditLog& audit;
  DescriptorSession::Blocking blocking;  // where calls that wait are carried out
  std::chrono::milliseconds idle_limit;
};

// A connection that streams go over. On its executor.
class StreamConnection {
 public:
  virtual ~StreamConnection() = default;
  virtual void Drop() = 0;  // and all that belongs to it
};

}  // namespace holdfast::agent::streams
