// SPDX-License-Identifier: Apache-2.0
// Validation as the API server does it at creation, worded as there: every fault at once, in the
// order of the fields. Defaults must be filled in before (agent/kube/defaulting.h).
// Pure; thread-safe.
#pragma once

#include "agent/kube/diagnostic.h"
#include "agent/kube/field_error.h"
#include "agent/kube/manifest_reader.h"
#include "agent/kube/types_fwd.h"

namespace k8s::io::api::core::v1 {
class EphemeralContainer;
}

namespace holdfast::agent::kube {

// All rules for a Pod that is to be created.
FieldErrors ValidatePod(const corev1::Pod& pod);

// What a static pod may not do when it runs under an API server's eyes (feature-map 1.1.10): refer
// to API objects. Ephemeral containers are refused too.
FieldErrors ValidateStaticPod(const corev1::Pod& pod);

// All rules for a container that is put into `pod`, which runs and has its defaults and is of a manifest;
// its own defaults are filled in. Its name is for others to compare.
FieldErrors CompleteEphemeralContainer(const corev1::Pod& pod,
                                       corev1::EphemeralContainer* container);

// All rules for a Service and an EndpointSlice that are to be created. Whether an address or a node
// port is free is known by whoever gives them out.
FieldErrors ValidateService(const corev1::Service& service);
FieldErrors ValidateEndpointSlice(const discoveryv1::EndpointSlice& slice);

// All rules for a ConfigMap and a Secret that are to be created; what the Secret has in `stringData`
// is in `data` already.
FieldErrors ValidateConfigMap(const corev1::ConfigMap& map);
FieldErrors ValidateSecret(const corev1::Secret& secret);

// The faults with file, line and column.
std::vector<Diagnostic> ToDiagnostics(const FieldErrors& errors, const ManifestObject& object);

}  // namespace holdfast::agent::kube
