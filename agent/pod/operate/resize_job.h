// SPDX-License-Identifier: Apache-2.0
// ResizeJob: the cgroups of a pod that runs get the amounts that it was given.
#pragma once

#include "agent/pod/operate/pod_job.h"

namespace holdfast::agent {

class ResizeJob final : public PodJob {
 public:
  using PodJob::PodJob;

 private:
  OperationEnd CarryOut() override;
};

}  // namespace holdfast::agent
