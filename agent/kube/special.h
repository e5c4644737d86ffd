// SPDX-License-Identifier: Apache-2.0
// The types whose JSON form is not that of their fields: Quantity, IntOrString, times, raw values,
// lists that are values of a map.
// Internal to the codec. Pure; thread-safe.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "agent/kube/schema.h"
#include "agent/kube/tree.h"

namespace holdfast::agent::kube {

// Fills `message`; the returned text says what is wrong, empty when nothing is. kNull is accepted
// where the zero value has that form.
std::string ReadSpecial(SpecialType type, const Node& node, google::protobuf::Message* message);

Node WriteSpecial(SpecialType type, const google::protobuf::Message& message);

}  // namespace holdfast::agent::kube
