// SPDX-License-Identifier: Apache-2.0
// The containers' part of `describe pod`. Pure.
#pragma once

#include "agent/cli/describe.h"
#include "agent/cli/describe_writer.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::cli {

// "Init Containers:", "Containers:", "Ephemeral Containers:"; empty groups are left out.
void DescribeContainers(const k8s::io::api::core::v1::Pod& pod, const Pulls& pulls, WallTime now,
                        DescribeWriter& out);

}  // namespace holdfast::agent::cli
