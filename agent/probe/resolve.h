// SPDX-License-Identifier: Apache-2.0
// Handlers of a pod's spec as checks: ports by name, hosts, headers, variables in commands. Pure.
// Source: Kubernetes' prober.go, probe/http/request.go, lifecycle/handlers.go.
#pragma once

#include <string>

#include "agent/probe/check.h"
#include "agent/probe/probe.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// nullptr: the container has none of that kind.
const corev1::Probe* ProbeOf(const corev1::Container& container, ProbeKind kind);

// kInvalidArgument: what a kubelet calls a probe that errored: a port that does not exist, no handler.
Result<Check> ResolveProbe(const corev1::ProbeHandler& handler, const corev1::Container& container,
                           const ContainerId& id, const std::string& pod_ip);

// Of a hook: exec or httpGet; a sleep is as long as it says. kInvalidArgument as above, and for a
// tcpSocket, which no kubelet carries out.
Result<Check> ResolveHook(const corev1::LifecycleHandler& handler,
                          const corev1::Container& container, const ContainerId& id,
                          const std::string& pod_ip);

}  // namespace holdfast::agent
