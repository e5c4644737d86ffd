// SPDX-License-Identifier: Apache-2.0
// NodeAdmission: gives the node's room to pods, one after the other. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "agent/pod/admit/node_offer.h"
#include "agent/pod/admit/node_use.h"
#include "agent/pod/admit/resize.h"
#include "agent/pod/decide/types.h"
#include "holdfast/base/ids.h"

namespace holdfast::agent {

// Causes of a verdict on a pod that waited. Source: kubelet 1.36, allocation_manager.go.
inline constexpr char kPodUpdated[] = "pod_updated";
inline constexpr char kPodsRemoved[] = "pods_removed";
inline constexpr char kPodTerminated[] = "pod_terminated";
inline constexpr char kPeriodicRetry[] = "periodic_retry";

class NodeAdmission {
 public:
  // `offer` gives what the node has. It is called for each new pod, under its caller's locks, and
  // waits for nothing.
  explicit NodeAdmission(std::function<std::shared_ptr<const NodeOffer>()> offer);

  // A critical pod that was never judged and lacks nothing but room, while others can give way to it. The room is kept
  // for it from then on: Admit() gives it, Release() gives it up.
  struct Room {
    bool awaited = false;         // until those that go have released theirs: then ask again
    std::vector<PodUid> victims;  // who has to go, each named once
    std::string resource;         // what is lacking first
  };
  Room MakeRoom(const corev1::Pod& pod);

  // For a pod that was never judged. When it is taken, its place is.
  Admission Admit(const corev1::Pod& pod);
  // A pod that was taken before, by this agent or a former one: not asked again. `ends`: its place will be free.
  void Adopt(const corev1::Pod& pod, bool ends);
  // For a pod that asks for other amounts: they are its own when they are given. One that is deferred waits for room in
  // ComesBefore()'s order: others are given theirs on the way, and it is given its own when a later call of anybody finds
  // room; the listener hears of it, and it asks again. One that asks for what it has waits no more. Who has no place, for
  // it is to go, is given none.
  ResizeVerdict Resize(const ResizeWish& wish);
  // The place of a pod is free again: it ended for good, or is to go. Idempotent. `how`: the cause of the verdict on who
  // waited for it.
  void Release(const std::string& uid, const char* how = kPodsRemoved);

  // Called with each pod that was given what it waited for, under the locks of whoever freed the room: it only posts. {}
  // ends that.
  void SetListener(std::function<void(const PodUid&)> given);

 private:
  void TakeBack(const std::string& uid);
  ResizeVerdict AnswerOne(const std::string& uid, const ResizeWish& wish);
  ResizeVerdict AnswerWaiting(const std::string& asking, const char* cause);

  const std::function<std::shared_ptr<const NodeOffer>()> offer_;
  std::mutex mutex_;
  NodeUse used_;
  std::set<std::string> ending_;               // UIDs of those that are to release their places
  std::map<std::string, ResizeWish> waiting_;  // by UID
  std::map<std::string, std::string>
      let_in_;  // by UID: who was given it and has not asked again, and the cause
  std::function<void(const PodUid&)> given_;
};

}  // namespace holdfast::agent
