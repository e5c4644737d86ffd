// SPDX-License-Identifier: Apache-2.0
// Every field of a kind of object, found by the schema. Pure.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "agent/kube/tree.h"
#include "tests/kube/validation/kit/edit.h"

namespace holdfast::agent::kube {

// One step of a field's path; the items of a list are entered by what comes after it.
struct FieldStep {
  std::string name;
  const google::protobuf::FieldDescriptor* field = nullptr;
};

using Field = std::vector<FieldStep>;

// "spec.containers[].ports[].hostPort"
std::string FieldName(const Field& field);

// All fields below the message, whole messages and lists among them. `leave_out` is what is not
// looked into, by its name as above.
std::vector<Field> FieldsOf(const google::protobuf::Descriptor* kind,
                            const std::vector<std::string>& leave_out);

// Where in the object the field's surroundings stand, the field's own name at the end: one for each
// item of the lists around it.
std::vector<Path> PlacesOf(const Field& field, const Node& object);

// The field's place where its surroundings are not there: the first item of each list.
Path MadePlaceOf(const Field& field);

}  // namespace holdfast::agent::kube
