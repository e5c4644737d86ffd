// SPDX-License-Identifier: Apache-2.0
// NodeAdmission: gives the node's room to pods, one after the other. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/pod/admit/node_offer.h"
#include "agent/pod/admit/node_use.h"
#include "agent/pod/admit/resize.h"
#include "agent/pod/decide/types.h"
#include "holdfast/base/ids.h"

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
  // For a pod that asks for other amounts: they are its own when they are given. One that is deferred waits for room in
  // ComesBefore()'s order: others are given theirs on the way, and it is given its own when a later call of anybody finds
  // room; the listener hears of it, and it asks again. One that asks for what it has waits no more. Who has no place, for
  // it is to go, is given none.
  ResizeVerdict Resize(const ResizeWish& wish);
  // The place of a pod is free again: it ended for good, or is to go. Idempotent.
  void Release(const std::string& uid);

  // Called with each pod that was given what it waited for, under the locks of whoever freed the room: it only posts. {}
  // ends that.
  void SetListener(std::function<void(const PodUid&)> given);

 private:
  ResizeVerdict AnswerOne(const std::string& uid, const ResizeWish& wish);
  ResizeVerdict AnswerWaiting(const std::string& asking);

  const std::function<std::shared_ptr<const NodeOffer>()> offer_;
  std::mutex mutex_;
  NodeUse used_;
  std::map<std::string, ResizeWish> waiting_;  // by UID
  std::function<void(const PodUid&)> given_;
};

}  // namespace holdfast::agent
