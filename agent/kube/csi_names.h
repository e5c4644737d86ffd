// SPDX-License-Identifier: Apache-2.0
// Names that the control plane and every node must make alike of a volume of a storage plugin. Pure.
#pragma once

#include <string>

namespace holdfast::agent::kube {

// Of the VolumeAttachment of a volume and a node.
std::string AttachmentName(const std::string& driver, const std::string& handle,
                           const std::string& node);
// In a Node's volumesInUse and volumesAttached.
std::string UniqueVolumeName(const std::string& driver, const std::string& handle);
// The handle of a volume that a pod names itself.
std::string EphemeralHandle(const std::string& pod_uid, const std::string& volume);
// The directory of a volume below that of its driver.
std::string HandleDirectory(const std::string& handle);

}  // namespace holdfast::agent::kube
