// SPDX-License-Identifier: Apache-2.0
// StartJob: a container is started, with what has to lie ready for it.
#pragma once

#include <map>
#include <string>

#include "agent/pod/operate/pod_job.h"
#include "agent/pod/spec/container_spec_builder.h"
#include "agent/volume/placed_volumes.h"

namespace holdfast::agent {

class StartJob final : public PodJob {
 public:
  using PodJob::PodJob;

 private:
  OperationEnd CarryOut() override;
  std::expected<StartedContainer, StartFailure> PrepareAndStart();
  Result<std::map<std::string, std::string>> MakeImageVolumes(const Image& image);
  Result<DevicePlaces> FindDevices(const corev1::Container& container, const PlacedVolumes& placed);
  Result<void> MountImages(const corev1::Container& container);
  Result<void> CheckServers(const model::ContainerSpec& spec, const PlacedVolumes& placed);
  Result<void> PrepareFiles(const model::ContainerSpec& spec, const corev1::Container& container);
  void ForgetOldAttempt(uint32_t attempt);
};

}  // namespace holdfast::agent
