// SPDX-License-Identifier: Apache-2.0
// The pod that is meant by POD or TYPE/NAME: a pod, or the best one of a Service or a controller.
#pragma once

#include <optional>
#include <string>

#include "agent/cli/best_pod.h"
#include "agent/cli/session.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent::cli {

inline constexpr char kPodTargetHelp[] =
    "Pod: a name, pod/NAME, namespace/NAME or a beginning; or one of service/NAME, deploy/NAME, …";

struct PodTarget {
  k8s::io::api::core::v1::Pod pod;
  std::optional<k8s::io::api::core::v1::Service> service = {};  // that was named
};

// What FindPod() takes, "svc/web", "deploy/web" and its like: a controller's pods are those of this node that say so.
// kubectl waits for a first pod; here none is a failure. Nothing: why was told.
std::optional<PodTarget> FindPodTarget(Session& session, const std::string& text, PodUse use);

// "apps/v1, Kind=Deployment" of "deploy/web": what kubectl calls that which it has no use for. Nothing: it may be a pod.
std::optional<std::string> KindOfTarget(const std::string& text);

}  // namespace holdfast::agent::cli
