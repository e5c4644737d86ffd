// SPDX-License-Identifier: Apache-2.0
// `describe`: everything about one object for a person to read, in kubectl's layout. Pure.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "k8s/core/v1/event.pb.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::cli {

std::string DescribePod(const k8s::io::api::core::v1::Pod& pod,
                        const std::vector<k8s::io::api::core::v1::Event>& events, WallTime now);

// The "Events:" block.
std::string DescribeEvents(const std::vector<k8s::io::api::core::v1::Event>& events, WallTime now);

}  // namespace holdfast::agent::cli
