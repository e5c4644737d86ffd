// SPDX-License-Identifier: Apache-2.0
// NodeOfferReader: what the node offers, read again and again on a thread of its own. Reading waits
// for a file system that hangs; whoever asks does not, and gets what was read last. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "agent/pod/admit/node_offer.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

class NodeOfferReader {
 public:
  // What is read with keeps what it needs alive: a reading that hangs outlives this object.
  using Read = std::function<std::shared_ptr<const NodeOffer>()>;

  // Returns after the first reading.
  static Result<std::unique_ptr<NodeOfferReader>> Start(
      Read read, std::chrono::milliseconds every = std::chrono::seconds(10));
  // Does not wait for a reading that is under way.
  ~NodeOfferReader();
  NodeOfferReader(const NodeOfferReader&) = delete;
  NodeOfferReader& operator=(const NodeOfferReader&) = delete;

  // Never null; waits for nothing.
  std::shared_ptr<const NodeOffer> Last() const;

 private:
  struct State;
  explicit NodeOfferReader(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;  // shared with the thread, which is detached
};

}  // namespace holdfast::agent
