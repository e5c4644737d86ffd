// SPDX-License-Identifier: Apache-2.0
// SELinux labels of containers and of their files, by what the node's kernel and policy have. Thread-safe: no state.
// Source: selinux(8), selinux_config(5); go-selinux 1.15 has the files' places.
#pragma once

#include <optional>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"
#include "holdfast/model/selinux.h"

namespace holdfast::runtime {

// What the node's policy has for containers: what it names and knows. nullopt: its kernel has no SELinux.
std::optional<model::SelinuxContexts> ReadSelinuxContexts();

// Both labels of a container whose pod has `level` (plan/selinux.h), known to the kernel's policy. None on a node without
// SELinux.
Result<model::SelinuxLabels> FindSelinuxLabels(const model::SelinuxOptions& asked,
                                               const std::string& level, bool privileged);

// Gives the label to everything below and including `top`, a file or a directory; nothing where the top has it already, or
// the file system has no labels of files. Never follows links, never enters what is mounted below; containers may go on
// changing the tree (sys/tree.h).
Result<void> Relabel(int top, const std::string& label);
// The same for the whole volume of a mount, of which the container may see a part.
Result<void> RelabelVolume(const model::MountSpec& mount, const std::string& label);

}  // namespace holdfast::runtime
