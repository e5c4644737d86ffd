// SPDX-License-Identifier: Apache-2.0
// What is told of a volume whose files are given to a group and that has many of them: after half a minute, then each
// minute, in a kubelet's words. Pure but for who is told; of one thread. Source: feature-map 1.22.2.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "agent/events/event.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

// Tells it of the pod. Thread-safe; does not block.
using TellOwnership =
    std::function<void(const ::k8s::io::api::core::v1::Pod& pod, const EventNote& note)>;

class OwnershipProgress {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `tell` may be empty; all but `path`, which is where the volume lies, are borrowed.
  OwnershipProgress(const ::k8s::io::api::core::v1::Pod& pod, const std::string& path,
                    const TellOwnership& tell, Time begun = std::chrono::steady_clock::now());

  // Before each file and directory.
  void NextFile(Time now = std::chrono::steady_clock::now());

 private:
  const ::k8s::io::api::core::v1::Pod& pod_;
  const std::string volume_;
  const TellOwnership& tell_;
  Time next_;
  uint64_t files_ = 0;
  bool told_ = false;
};

}  // namespace holdfast::agent
