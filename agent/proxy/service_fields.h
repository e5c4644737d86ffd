// SPDX-License-Identifier: Apache-2.0
// What becomes of each field of a Service on a node without an API server: the one table
// (kube/field_rules.h) and what follows from it for a Service. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "agent/kube/field_rules.h"
#include "agent/kube/types_fwd.h"

namespace holdfast::agent {

// All messages that are reached from ServiceSpec.
const kube::FieldRules& ServiceFieldRules();

// What the Service asks for and does not get: the messages of events FieldNotHonoured.
std::vector<std::string> LeftOut(const corev1::Service& service);

}  // namespace holdfast::agent
