// SPDX-License-Identifier: Apache-2.0
// UnknownPods: what the runtime has of pods of which no record can be read. It is found once, at the
// start, and removed once nobody can want it any more; until then no pod of such a UID begins.
// Not thread-safe but for Remove(), which takes its time.
#pragma once

#include <functional>
#include <set>

#include "agent/pod/operate/services.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

class UnknownPods {
 public:
  explicit UnknownPods(PodServices& services) : services_(services) {}

  Result<void> Find(const std::function<bool(const PodUid&)>& has_record);
  // Found, and nobody removes it yet.
  const std::set<PodUid>& found() const { return found_; }
  bool IsBeingRemoved(const PodUid& uid) const { return removed_.contains(uid); }

  // Removal: begun, done by Remove() on any thread, ended.
  void BeginRemoval(const PodUid& uid);
  void Remove(const PodUid& uid);
  void EndRemoval(const PodUid& uid) { removed_.erase(uid); }

 private:
  PodServices& services_;
  std::set<PodUid> found_;
  std::set<PodUid> removed_;
};

}  // namespace holdfast::agent
