// SPDX-License-Identifier: Apache-2.0
// The downward API: fields of a pod and amounts of its containers as text, for environments and for files. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/pod/spec/node_environment.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// A field by its path ("metadata.name", "metadata.labels", "metadata.labels['app']", "status.podIP"). kInvalidArgument
// for what is none.
Result<std::string> DownwardField(const corev1::Pod& pod, const std::string& path,
                                  const NodeEnvironment& node,
                                  const std::vector<std::string>& pod_ips);

// "limits.cpu" and its kin, in units of the divisor, rounded up. A limit that is not set is what the node has for pods.
// `self`: the container that is meant when the selector names none; may be null.
Result<std::string> DownwardResource(const corev1::Pod& pod, const corev1::Container* self,
                                     const corev1::ResourceFieldSelector& selector,
                                     const NodeEnvironment& node);

// Labels or annotations as a file shows them: one line `key="value"` each, in the order of the keys, without a newline
// at the end.
std::string FormatMap(const std::map<std::string, std::string>& map);

}  // namespace holdfast::agent
