// SPDX-License-Identifier: Apache-2.0
// NodeAdmission: gives the node's room to pods, one after the other. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "agent/pod/admit/node_offer.h"
#include "agent/pod/admit/node_use.h"
#include "agent/pod/decide/types.h"

namespace holdfast::agent {

class NodeAdmission {
 public:
  // `offer` gives what the node has. It is called for each new pod, under its caller's locks, and
  // waits for nothing.
  explicit NodeAdmission(std::function<std::shared_ptr<const NodeOffer>()> offer);

  // For a pod that was never judged. When it is taken, its place is.
  Admission Admit(const corev1::Pod& pod);
  // A pod that was taken before, by this agent or a former one: not asked again.
  void Adopt(const corev1::Pod& pod);
  // The place of a pod is free again: it ended for good, or is to go. Idempotent.
  void Release(const std::string& uid);

 private:
  const std::function<std::shared_ptr<const NodeOffer>()> offer_;
  std::mutex mutex_;
  NodeUse used_;
};

}  // namespace holdfast::agent
