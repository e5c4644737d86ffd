// SPDX-License-Identifier: Apache-2.0
// CsiMounter: how a volume of a storage plugin comes to a pod and goes, whatever speaks to the plugin. Thread-safe; calls
// block for as long as the plugin takes, two minutes each at most.
#pragma once

#include <atomic>

#include "agent/volume/persistent_volume.h"
#include "agent/volume/placed_volumes.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

class CsiMounter {
 public:
  virtual ~CsiMounter() = default;
  // Mounts it at place.path; of one that is ready already the plugin is told again what the pod's use of it is. Idempotent;
  // killed or failed at any point it is undone by Unmount(). The error is the message of a FailedMount event. `cancelled`
  // is looked at while the plugin is waited for.
  virtual Result<void> Mount(const ::k8s::io::api::core::v1::Pod& pod,
                             const PersistentVolume& volume, const PlacedVolume& place,
                             const std::atomic<bool>& cancelled) = 0;
  // Lets the file system of one that is mounted grow to so many bytes. Idempotent. kConflict: not while it is in use;
  // kInvalidArgument, kNotFound: it never will; kUnavailable, kDeadlineExceeded, kResourceExhausted: it may have, or will.
  virtual Result<void> Expand(const PersistentVolume& volume, const PlacedVolume& place,
                              const CsiSecrets& secrets, int64_t bytes,
                              const std::atomic<bool>& cancelled) = 0;
  // Idempotent; also of one that was never mounted.
  virtual Result<void> Unmount(const PodUid& uid, const PlacedVolume& place) = 0;
};

}  // namespace holdfast::agent
