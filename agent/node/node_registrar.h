// SPDX-License-Identifier: Apache-2.0
// NodeRegistrar: makes this node's Node object at the API server and keeps it true: registered, or adopted when it is
// there; its status sent when it changes and every five minutes; registered again when somebody deletes it. An actor on
// the API thread; what it offers as a NodeView is thread-safe. Source: control-plane.md section 4; join.md, traps 44-48.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/cluster/api.h"
#include "agent/events/event_sink.h"
#include "agent/node/node_builder.h"
#include "agent/node/node_description.h"
#include "agent/node/node_readiness.h"
#include "agent/node/node_view.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

struct NodeRegistrarOptions {
  std::string name;
  bool register_node = true;  // false: somebody else makes the Node
  NodeRegistration registration;
  // The parts that must be well, in the order in which their problems are shown, with `known` false and what is said of
  // each until it spoke itself: {"runtime", "container runtime status check may not have completed yet", false}.
  std::vector<ReadyInput> ready_inputs;
  // What was read last; must not block. Null: nothing yet.
  std::function<std::shared_ptr<const NodeDescription>()> facts;
  std::function<void(const std::string& line)> log;  // the same trouble once a minute
  EventSink* events = nullptr;                       // borrowed
};

class NodeRegistrar : public NodeView {
 public:
  // `api` and `clock` are borrowed.
  NodeRegistrar(Api& api, const Clock& clock, NodeRegistrarOptions options);
  // On the API thread, or after it ended.
  ~NodeRegistrar() override;
  NodeRegistrar(const NodeRegistrar&) = delete;
  NodeRegistrar& operator=(const NodeRegistrar&) = delete;

  std::shared_ptr<const NodeFact> Get() const override;
  void SetReadyInput(const std::string& input, const std::string& problem) override;
  void SetListener(std::function<void()> changed) override;

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // shared with what the API thread runs of it
};

}  // namespace holdfast::agent
