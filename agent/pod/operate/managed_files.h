// SPDX-License-Identifier: Apache-2.0
// The files of a pod that we write for its containers: resolv.conf, hostname and etc-hosts.
#pragma once

#include <string>
#include <vector>

#include "agent/pod/spec/files.h"
#include "agent/pod/spec/node_environment.h"
#include "agent/pod/state/paths.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

Result<void> WriteManagedFiles(const corev1::Pod& pod, const NodeEnvironment& node,
                               const PodPaths& paths, const std::vector<std::string>& pod_ips,
                               const ResolvConf& resolv_conf);

}  // namespace holdfast::agent
