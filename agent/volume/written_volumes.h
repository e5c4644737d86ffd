// SPDX-License-Identifier: Apache-2.0
// Where volumes lie whose files the agent writes (configMap, secret, downwardAPI, projected): all of a node on one
// tmpfs, <run_dir>/volumes, so that nothing secret reaches a disk and no pod costs a mount. Only root gets at it;
// containers have bind mounts of single volumes, read-only. Programs may be run from it, as under a kubelet. It lives as
// long as the machine, whoever of us restarts; after a reboot the files are written anew. Thread-safe for different
// pods.
#pragma once

#include <string>

#include "agent/pod/state/paths.h"
#include "agent/volume/volume_file.h"
#include "holdfast/base/result.h"
#include "holdfast/model/instance.h"

namespace holdfast::agent {

// Once, before the first pod: mounts the tmpfs. Idempotent.
Result<void> OpenWrittenVolumes(const model::Instance& instance);
// Takes it away with everything on it; no container may run any more.
Result<void> RemoveWrittenVolumes(const model::Instance& instance);

// Makes the volumes show their content (atomic_writer.h), at first and after every change. A volume that fails holds
// none of the others up; the error is of the first and the message of a FailedMount event.
Result<void> WriteVolumes(const PodPaths& paths, const VolumeContents& contents);

// Removes what the pod has there; absent is success.
Result<void> ReleaseWrittenVolumes(const std::string& directory);

}  // namespace holdfast::agent
