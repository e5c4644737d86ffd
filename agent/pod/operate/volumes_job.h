// SPDX-License-Identifier: Apache-2.0
// VolumesJob: the volumes of a pod stand, and files made from what an API server has are as that is.
#pragma once

#include <string>

#include "agent/pod/operate/pod_job.h"
#include "agent/pod/spec/claimed_volumes.h"
#include "agent/pod/spec/node_environment.h"
#include "agent/volume/persistent_volume.h"

namespace holdfast::agent {

class VolumesJob final : public PodJob {
 public:
  using PodJob::PodJob;

 private:
  OperationEnd CarryOut() override;
  OperationEnd Ensure();
  Result<void> MakeVolumes();
  Result<void> MakePersistentVolumes(const NodeEnvironment& node);
  void LabelMounts(const NodeEnvironment& node, ClaimedVolumes& claimed) const;
  void GrowClaims(const PersistentVolumes& volumes);
  void KeepInputs();
};

}  // namespace holdfast::agent
