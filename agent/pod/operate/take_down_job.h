// SPDX-License-Identifier: Apache-2.0
// TakeDownJob: stopping and removing containers, the sandbox, and all that is left of a pod.
#pragma once

#include <string>

#include "agent/pod/operate/pod_job.h"

namespace holdfast::agent {

class TakeDownJob final : public PodJob {
 public:
  using PodJob::PodJob;

 private:
  OperationEnd CarryOut() override;
  Result<void> TakeDown();
  Result<void> Signal();
  Result<void> Kill();
  void GiveUpDeadServers();
  Result<void> RemoveContainer();
  Result<void> RemovePodSandbox();
  Result<void> TakeVolumesAway();
  Result<void> Release();
  Result<void> CleanUp();
  Result<void> RemoveTree(const std::string& path, const std::string& aside);
};

}  // namespace holdfast::agent
