// SPDX-License-Identifier: Apache-2.0
// Where a pod's generated files lie: /etc/hosts, /etc/resolv.conf, /etc/hostname and what its
// containers write as termination messages. A container may write all of them (as under kubelet
// and containerd), so each pod's lie on a tmpfs of kPodFilesBytes: the node's disk is out of reach,
// and the memory is counted as the writer's. Containers of one pod share that room.
//
// The tmpfs are mounted below <run_dir>/pods, itself a mount that propagates nothing: no other
// mount namespace gets a copy of each. They live as long as the machine, whoever of us restarts;
// after a reboot the files are generated anew.
#pragma once

#include <cstdint>
#include <string>

#include "agent/pod/state/paths.h"
#include "holdfast/base/result.h"
#include "holdfast/model/instance.h"

namespace holdfast::agent {

// For /etc/hosts with many entries, and for the messages of any number of containers.
inline constexpr uint64_t kPodFilesBytes = 1ull << 20;

// Once, before the first pod: makes <run_dir>/pods. Idempotent.
Result<void> OpenPodFilesRoot(const model::Instance& instance);
// Takes it away with everything on it; no container may run any more.
Result<void> RemovePodFilesRoot(const model::Instance& instance);

// Makes paths.Files(). Idempotent: what lies there stays.
Result<void> EnsurePodFiles(const PodPaths& paths);
// Removes the directory `files` (PodPaths::Files()) with what lies there; absent is success.
Result<void> ReleasePodFiles(const std::string& files);

// A file that any user of the container may write. Room for a message that is appended is set
// aside, whatever the pod's other containers write.
Result<void> MakeTerminationLog(const std::string& path);

}  // namespace holdfast::agent
