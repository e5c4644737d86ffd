// SPDX-License-Identifier: Apache-2.0
// PullJob: pulling an image that a container needs.
#pragma once

#include <string>

#include "agent/pod/operate/pod_job.h"
#include "holdfast/interfaces/image_puller.h"

namespace holdfast::agent {

class PullJob final : public PodJob {
 public:
  using PodJob::PodJob;

 private:
  OperationEnd CarryOut() override;
  Result<PulledImage> PullImage(const std::string& reference);
};

}  // namespace holdfast::agent
