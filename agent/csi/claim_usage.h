// SPDX-License-Identifier: Apache-2.0
// ClaimUsage: what is left of the PersistentVolumes that pods of this node have. A plugin is asked for its own volumes,
// where it can tell; a local volume's file system is asked itself; a hostPath and a local block device are nobody's. Thread-safe.
// Source: kubelet 1.36 (volume.MetricsProvider of each kind); feature-map 1.16.1.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "agent/csi/csi_drivers.h"
#include "agent/stats/machine_stats.h"
#include "agent/stats/measured_places.h"
#include "agent/volume/placed_volumes.h"
#include "holdfast/model/instance.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

class ClaimUsage {
 public:
  // Borrowed.
  ClaimUsage(const model::Instance& instance, const CsiDrivers& drivers);

  // By the volume's name in the pod, what was found last; reads the pod's record. Remembers that it is wanted.
  std::map<std::string, FsUsage> Of(const ::k8s::io::api::core::v1::Pod& pod);
  // Looks at what is wanted. May take as long as plugins do.
  void Measure() { places_.Measure(); }

 private:
  std::optional<FsUsage> Look(const std::string& path);

  const model::Instance& instance_;
  const CsiDrivers& drivers_;
  std::mutex mutex_;
  std::map<std::string, PlacedVolume> wanted_;  // by path, since the last look
  MeasuredPlaces<FsUsage> places_;
};

}  // namespace holdfast::agent
