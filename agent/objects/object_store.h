// SPDX-License-Identifier: Apache-2.0
// ObjectStore: the objects that pods refer to, each asked for once for all pods that have arrived until
// then, and followed while a pod shows it in a volume. Everything runs on the API thread, where it is destroyed, too.
//
// A pod is served by an answer to a GET that began after the pod arrived: whoever changes an object and then makes a pod
// finds the change in it. What is immutable is asked for once. An object that somebody mounts has a watch, shared by its
// pods; above `most_watches`, and for what a node may not watch, one more GET each 60 to 90 s instead, or, while it is
// waited for, after 0.8 s doubled to 30 s. That an object is gone is believed only to a GET.
// Source: join.md 1.3 and traps 38, 39, 43.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "agent/cluster/api.h"
#include "agent/objects/object_requests.h"
#include "agent/objects/pod_inputs.h"
#include "agent/objects/references.h"

namespace holdfast::agent {

class ObjectStore {
 public:
  // What an object is to one pod, whenever that changes.
  using Changed = std::function<void(const PodUid& uid, const ObjectRef& ref, ObjectInput input)>;

  ObjectStore(Api& api, size_t most_watches, Changed changed);
  ~ObjectStore();

  // What the pod refers to now. It has arrived at what it did not refer to before.
  void Use(const PodUid& uid, const std::map<ObjectRef, ObjectUse>& uses);
  void Drop(const PodUid& uid);
  // Asks again for what is in environments of the pod only.
  void Refresh(const PodUid& uid);

  size_t WatchesForTest() const { return watches_; }

 private:
  struct Object;
  class Follower;

  void AddUse(Object& object, const PodUid& uid, const ObjectUse& use);
  void RemoveUse(const ObjectRef& ref, const PodUid& uid);

  void Ask(Object& object);
  void Retry(Object& object, std::chrono::milliseconds delay);
  std::chrono::milliseconds BackOff(Object& object);
  void OnAnswer(Object& object, Result<ApiReply> reply);
  void OnRefused(Object& object, const ApiReply& reply);
  void OnFound(Object& object, std::shared_ptr<const ObjectData> data);
  void OnAbsent(Object& object);
  void OnTrouble(Object& object, std::string why, std::chrono::milliseconds delay);
  void Answered(Object& object, bool changed);

  void Follow(Object& object);
  void Watch(Object& object);
  void StopFollowing(Object& object);
  void OnFollowed(Object& object, std::shared_ptr<const ObjectData> data, bool of_list);

  void TellAll(Object& object);
  void Tell(Object& object, const PodUid& uid);

  double Random() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  Api& api_;
  const size_t most_watches_;
  const Changed changed_;
  std::minstd_rand random_{std::random_device()()};
  uint64_t arrivals_ = 0;
  size_t watches_ = 0;
  std::map<ObjectRef, std::unique_ptr<Object>> objects_;
  std::map<PodUid, std::set<ObjectRef>> of_pods_;
};

}  // namespace holdfast::agent
