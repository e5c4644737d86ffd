// SPDX-License-Identifier: Apache-2.0
// What becomes of each field of a pod that this node took: the one table (kube/field_rules.h) and
// what follows from it for a pod. Pure; thread-safe.
#pragma once

#include <vector>

#include "agent/kube/field_rules.h"
#include "agent/pod/decide/types.h"
#include "agent/source/pod_origin.h"

namespace holdfast::agent {

// All messages that are reached from PodSpec.
const kube::FieldRules& PodFieldRules();

// What the pod asks for and does not get, an event for each. In a cluster others do some of it.
std::vector<EventNote> LeftOut(const corev1::Pod& pod, PodOrigin origin = PodOrigin::kFile,
                               bool has_selinux = false);

}  // namespace holdfast::agent
