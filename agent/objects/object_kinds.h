// SPDX-License-Identifier: Apache-2.0
// What is known of each kind of object that a pod refers to, in one table. Pure.
#pragma once

#include <span>

#include "agent/objects/pod_inputs.h"

namespace holdfast::agent {

struct ObjectKindRow {
  ObjectKind kind;
  const char* api_version;
  const char* name;      // as in an object's `kind`; a kept record has it
  const char* resource;  // as in a path
  const char*
      noun;  // in events: the API server says the resource, a kubelet of what it looks for itself the kind
  bool namespaced;
  bool watched;  // a node has the right to; the others it may only get
  bool leads;    // what is known of it may name further objects (references.h)
};

// In the order of ObjectKind.
std::span<const ObjectKindRow> ObjectKinds();
const ObjectKindRow& RowOf(ObjectKind kind);

}  // namespace holdfast::agent
