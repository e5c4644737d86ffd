// SPDX-License-Identifier: Apache-2.0
// Names of the directories in the kubepods tree, and back. Pure.
// Source: feature-map 2.4.1 (cgroupfs) and 2.4.2 (systemd style: the same tree with unit names;
// no D-Bus call is made).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/base/ids.h"
#include "holdfast/model/container_spec.h"

namespace holdfast::runtime {

enum class CgroupNaming : uint8_t { kCgroupfs, kSystemd };

// "kubepods" or "kubepods.slice".
std::string PodsRootName(CgroupNaming naming);
// "burstable" or "kubepods-burstable.slice"; "" for Guaranteed, whose pods lie in the root.
std::string QosDirName(CgroupNaming naming, model::QosClass qos);
// "pod<uid>" or "kubepods-burstable-pod<uid with _ for ->.slice".
std::string PodDirName(CgroupNaming naming, model::QosClass qos, const PodUid& uid);
// "<id>" or "holdfast-<id>.scope".
std::string ContainerDirName(CgroupNaming naming, const ContainerId& id);

// What PodDirName and ContainerDirName made; nullopt for a name that is not of that form. A uid
// with underscores cannot be told from one with dashes in systemd style; dashes are assumed, as
// uids have them.
std::optional<PodUid> ParsePodDirName(CgroupNaming naming, model::QosClass qos,
                                      std::string_view name);
std::optional<ContainerId> ParseContainerDirName(CgroupNaming naming, std::string_view name);

}  // namespace holdfast::runtime
