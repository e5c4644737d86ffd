// SPDX-License-Identifier: Apache-2.0
// VolumesJob: the volumes of a pod stand, and files made from what an API server has are as that is.
#pragma once

#include <string>

#include "agent/pod/operate/pod_job.h"
#include "agent/volume/persistent_volume.h"

namespace holdfast::agent {

class VolumesJob final : public PodJob {
 public:
  using PodJob::PodJob;

 private:
  OperationEnd CarryOut() override;
  OperationEnd Ensure();
  Result<void> MakeVolumes();
  Result<void> MakePersistentVolumes(const std::string& node_name);
  void GrowClaims(const PersistentVolumes& volumes);
  void KeepInputs();
};

}  // namespace holdfast::agent
