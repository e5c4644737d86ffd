// SPDX-License-Identifier: Apache-2.0
// PodPulls: the pulls that pods of this node wait for at the moment, and how far each is. Thread-safe;
// nothing blocks.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/interfaces/image_puller.h"

namespace holdfast::agent {

struct PodPull {
  std::string pod_namespace, pod, pod_uid, container;
  std::string image;  // as the pod names it
  WallTime begun;
  PullProgress progress = {};  // no layers: the registry has not yet said which
};

class PodPulls {
 public:
  // A pull is shown for as long as this lives, which `pulls` outlives.
  class Shown {
   public:
    Shown(PodPulls& pulls, PodPull pull);
    ~Shown();
    Shown(const Shown&) = delete;
    Shown& operator=(const Shown&) = delete;
    void Update(const PullProgress& progress);

   private:
    PodPulls& pulls_;
    uint64_t id_;
  };

  // Sorted by namespace, pod, container.
  std::vector<PodPull> List() const;

 private:
  mutable std::mutex mutex_;  // what follows
  std::map<uint64_t, PodPull> pulls_;
  uint64_t last_id_ = 0;
};

}  // namespace holdfast::agent
