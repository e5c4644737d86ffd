// SPDX-License-Identifier: Apache-2.0
// ClaimGrowth: claims of a pod that were given more room than their file systems show. The pod runs
// on, whatever goes wrong.
#pragma once

#include <atomic>
#include <vector>

#include "agent/objects/pod_inputs.h"
#include "agent/pod/decide/types.h"
#include "agent/pod/operate/services.h"
#include "agent/volume/csi_mounter.h"
#include "agent/volume/persistent_volume.h"
#include "agent/volume/placed_volumes.h"

namespace holdfast::agent {

class ClaimGrowth {
 public:
  // All borrowed. There are storage plugins, and an API server.
  ClaimGrowth(PodServices& services, const PodInputs& inputs, const corev1::Pod& pod,
              const std::atomic<bool>& cancelled)
      : services_(services), inputs_(inputs), pod_(pod), cancelled_(cancelled) {}

  // What is to be told of the pod. What failed is tried again when its volumes are looked at the
  // next time.
  std::vector<EventNote> Grow(const PersistentVolumes& volumes, const PlacedVolumes& placed);

 private:
  Result<void> GrowClaim(const PersistentVolume& volume, const PlacedVolume& place);
  Result<void> NotGrown(const kube::Claim& claim, Error error);
  Result<CsiSecrets> ExpandSecrets(const PersistentVolume& volume) const;

  PodServices& services_;
  const PodInputs& inputs_;
  const corev1::Pod& pod_;
  const std::atomic<bool>& cancelled_;
  std::vector<EventNote> notes_;
};

}  // namespace holdfast::agent
