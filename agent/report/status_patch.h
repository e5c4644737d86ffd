// SPDX-License-Identifier: Apache-2.0
// From the status that the server has to the one that the node sees, as a strategic merge patch of the fields that are
// the node's: what others write is not named in it. Pure. Source: control-plane.md 5.3, 5.4.
#pragma once

#include <string>

#include "holdfast/base/ids.h"

namespace k8s::io::api::core::v1 {
class PodStatus;
}

namespace holdfast::agent {

// "" when nothing differs. It always names the UID: a pod of the same name that came after is never
// meant. A phase that the server has as the last one is left alone, and so are the start time,
// PodScheduled (but for its generation) and, where there are none of ours, addresses and containers.
std::string StatusPatch(const PodUid& uid, const k8s::io::api::core::v1::PodStatus& server,
                        const k8s::io::api::core::v1::PodStatus& ours);

}  // namespace holdfast::agent
