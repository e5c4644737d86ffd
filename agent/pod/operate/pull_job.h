// SPDX-License-Identifier: Apache-2.0
// PullJob: pulling an image that a container needs.
#pragma once

#include <string>
#include <utility>

#include "agent/pod/operate/pod_job.h"
#include "holdfast/interfaces/image_puller.h"

namespace holdfast::agent {

class PullJob final : public PodJob {
 public:
  PullJob(PodServices& services, PodJobInput input, const std::atomic<bool>& cancelled)
      : PodJob(services, std::move(input), cancelled) {}

 private:
  OperationEnd CarryOut() override;
  Result<PulledImage> PullImage(const std::string& reference);
};

}  // namespace holdfast::agent
