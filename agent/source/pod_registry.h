// SPDX-License-Identifier: Apache-2.0
// PodRegistry: the pods that are wanted, of all origins, and what is new about them since somebody
// asked. A pod that is not here is gone only once its own origin is complete, that is, has said all
// it has to say at least once. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/source/pod_origin.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"

namespace k8s::io::api::core::v1 {
class Pod;
}

namespace holdfast::agent {

struct WantedPod {
  // Never changed: a new version is a new message.
  std::shared_ptr<const k8s::io::api::core::v1::Pod> pod;
  PodOrigin origin = PodOrigin::kFile;
  std::optional<std::chrono::seconds> deletion;  // the origin wants it gone, with this grace
};

struct PodNews {
  PodUid uid;
  std::optional<WantedPod> wanted;  // absent: gone
};

class PodRegistry {
 public:
  // Of an origin that is not among `origins` nothing will come: it counts as complete.
  explicit PodRegistry(std::set<PodOrigin> origins);

  // Adds or replaces by UID. What changes nothing for the node (pod_change.h: the echo of a status
  // that it reported itself) is kept for Find() and is no news. kConflict, and nothing changes, when
  // another origin has a pod of that UID.
  Result<void> Set(WantedPod pod);
  // Nothing happens unless `origin` has it.
  void Remove(PodOrigin origin, const PodUid& uid);
  bool Has(PodOrigin origin, const PodUid& uid) const;
  // After the first whole list.
  void Complete(PodOrigin origin);
  bool IsComplete(PodOrigin origin) const;

  // The newest per pod, in order of the first change; each is given once.
  std::vector<PodNews> Take();
  // The newest message as its origin has it, status included; null when it is not wanted.
  std::shared_ptr<const k8s::io::api::core::v1::Pod> Find(const PodUid& uid) const;

  // `news` is called after each change, on the thread that made it and without a lock held; it must
  // not block. {} ends that.
  void SetListener(std::function<void()> news);

 private:
  void Note(const PodUid& uid);
  void Tell();

  mutable std::mutex mutex_;
  std::map<PodUid, WantedPod> wanted_;
  std::set<PodOrigin> incomplete_;
  std::vector<PodUid> changed_;  // in order
  std::set<PodUid> noted_;       // the same
  std::function<void()> listener_;
};

}  // namespace holdfast::agent
