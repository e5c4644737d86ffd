// SPDX-License-Identifier: Apache-2.0
// Default values as the API server fills them in. Idempotent; single-thread per object.
#pragma once

#include <string>
#include <string_view>

#include "agent/kube/types_fwd.h"

namespace holdfast::agent::kube {

// A Pod as it would be read back after creation: namespace, restart and DNS policy, grace period,
// pull policies, probes' periods, modes of volumes, requests from limits, host ports, …
void SetPodDefaults(corev1::Pod* pod);

// The same for the pod of a template (Deployment).
void SetPodTemplateDefaults(corev1::PodTemplateSpec* pod_template);

void SetServiceDefaults(corev1::Service* service);
void SetDeploymentDefaults(appsv1::Deployment* deployment);

// The defaults of whatever kind it is; kinds without defaults stay as they are.
void SetDefaults(google::protobuf::Message* object);

// Always for no tag or "latest", else IfNotPresent (feature-map 1.22.10).
std::string DefaultPullPolicy(std::string_view image);

}  // namespace holdfast::agent::kube
