// SPDX-License-Identifier: Apache-2.0
// Volumes of huge pages: emptyDir with medium HugePages or HugePages-2Mi. Source: feature-map 2.4.12.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

bool IsHugePages(const corev1::VolumeSource& source);

// The size of one page in bytes: as the medium names it, where a container or the pod asks for such; without a name, the
// only one that they ask for. Otherwise why not, in a kubelet's words. Pure.
Result<uint64_t> HugePageBytes(const corev1::PodSpec& spec, const std::string& medium);

// Idempotent. `path` is a directory.
Result<void> MountHugePages(const std::string& path, uint64_t page_bytes);

}  // namespace holdfast::agent
