// SPDX-License-Identifier: Apache-2.0
// Volumes of a pod on this node: emptyDir (disk or memory), hostPath with its types, and those whose
// files the agent writes; images are mounted when containers start (mounted_images.h), PersistentVolumes are made elsewhere
// (persistent_volumes.h). Others get the refusal a kubelet gives. Thread-safe for different pods; calls may block on disk or on a dead
// network file system.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "agent/pod/state/paths.h"
#include "agent/volume/placed_volumes.h"
#include "agent/volume/volume_file.h"
#include "agent/volume/volume_place.h"
#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// Where each volume of the pod lies on the node, by name. Only those that can be set up, and of
// `persistent` those that were and are no block devices; pure.
VolumePlaces PlacesOfVolumes(const corev1::Pod& pod, const PodPaths& paths,
                             const PlacedVolumes& persistent = {});

// How large an emptyDir in memory is: its sizeLimit, but no more than the pod's memory limit and
// than the node has for pods (feature-map 1.22.1). 0: nothing bounds it. Pure.
int64_t MemoryVolumeBytes(const corev1::PodSpec& pod, const corev1::EmptyDirVolumeSource& volume,
                          int64_t node_bytes);

// Makes what is missing. Idempotent; the error is the message of a FailedMount event. `node_bytes`:
// the memory that the node has for pods. `contents`: of configMap, secret, downwardAPI and projected
// volumes; one that is not there is missing, or, if it is optional, empty.
Result<void> EnsureVolumes(const corev1::Pod& pod, const PodPaths& paths, int64_t node_bytes,
                           const VolumeContents& contents = {});

// Makes the directory of a mount's sub path unless something is there, with the volume's mode (as a kubelet); never leaves
// the volume, which is opened as its `source_root` says.
Result<void> EnsureSubPath(const model::MountSpec& mount);

// Unmounts what EnsureVolumes mounted and removes what the agent wrote; other files go with the
// pod's directory.
Result<void> ReleaseVolumes(const corev1::Pod& pod, const PodPaths& paths);

}  // namespace holdfast::agent
