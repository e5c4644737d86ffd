// SPDX-License-Identifier: Apache-2.0
// What a volume that could not be made, or taken away, is told with: a kubelet's words. Pure.
#pragma once

#include <string>
#include <utility>

#include "holdfast/base/result.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {

// The steps of a volume's life: for the node, for the pod, and back.
struct VolumeSteps {
  const char* stage;
  const char* publish;
  const char* unpublish;
  const char* unstage;
};
inline constexpr VolumeSteps kFileSystemSteps{"MountVolume.MountDevice", "MountVolume.SetUp",
                                              "UnmountVolume.TearDown", "UnmountDevice"};
inline constexpr VolumeSteps kBlockSteps{"MapVolume.SetUpDevice", "MapVolume.MapPodDevice",
                                         "UnmapVolume.UnmapPodDevice",
                                         "UnmapDevice.TearDownDevice"};
inline constexpr const VolumeSteps& StepsOf(bool block) {
  return block ? kBlockSteps : kFileSystemSteps;
}

inline Error StepFailed(const char* step, const std::string& volume, Error error) {
  return std::move(error).Wrap(StrCat(step, " failed for volume \"", volume, "\" "));
}

inline Error SetUpFailed(const std::string& volume, Error error) {
  return StepFailed(kFileSystemSteps.publish, volume, std::move(error));
}

}  // namespace holdfast::agent
