// SPDX-License-Identifier: Apache-2.0
// What releases before pods.journal kept of each pod, as files in its directory, so that an agent
// of today takes over the pods that run, and one of then can:
//
//   <root_dir>/pods/<uid>/pod.pb       the pod as admitted
//   <root_dir>/pods/<uid>/record.json  its record; none of a pod that had just begun
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct FormerPod {
  std::string uid;
  std::string pod;
  std::optional<std::string> record;
};

struct FormerPods {
  std::vector<FormerPod> pods;
  WallTime written_at;                // the newest of their files
  std::vector<std::string> problems;  // what cannot be read, and why
};

// `pods_dir`: an open Instance::PodsDir().
FormerPods ReadFormerPods(int pods_dir);
// Absent is success.
Result<void> RemoveFormerPod(int pods_dir, const std::string& uid);
Result<void> WriteFormerPod(int pods_dir, const FormerPod& pod);

}  // namespace holdfast::agent
