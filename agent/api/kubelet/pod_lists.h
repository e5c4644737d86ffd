// SPDX-License-Identifier: Apache-2.0
// /pods and /runningpods/: PodLists as JSON. Pure but for the view.
#pragma once

#include <string>

#include "agent/view/pod_view.h"

namespace holdfast::agent::api {

// Every pod of the node, with its status.
std::string PodsJson(const PodView& pods);

// Those with running containers, as the runtime knows them: names, images and nothing else.
std::string RunningPodsJson(const PodView& pods);

}  // namespace holdfast::agent::api
