// SPDX-License-Identifier: Apache-2.0
// ResizeJob: the cgroups of a pod that runs get the amounts that it was given.
#pragma once

#include <utility>

#include "agent/pod/operate/pod_job.h"

namespace holdfast::agent {

class ResizeJob final : public PodJob {
 public:
  ResizeJob(PodServices& services, PodJobInput input, const std::atomic<bool>& cancelled)
      : PodJob(services, std::move(input), cancelled) {}

 private:
  OperationEnd CarryOut() override;
};

}  // namespace holdfast::agent
