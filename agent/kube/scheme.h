// SPDX-License-Identifier: Apache-2.0
// The kinds that Holdfast knows: (apiVersion, kind) <-> message type. Pure; thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/types_fwd.h"

namespace holdfast::agent::kube {

// "v1" and "Pod", "apps/v1" and "Deployment".
struct TypeMeta {
  std::string api_version;
  std::string kind;
  bool operator==(const TypeMeta&) const = default;
};

// Owns an object of any kind without needing its type's definition.
struct ObjectDeleter {
  void operator()(google::protobuf::Message* object) const;
};
using ObjectPtr = std::unique_ptr<google::protobuf::Message, ObjectDeleter>;

// An empty object of that kind; nullptr when the kind is not known. Lists count as kinds.
ObjectPtr NewObject(const TypeMeta& type);

// Empty for a message that is no object of its own (a PodSpec).
TypeMeta TypeMetaOf(const google::protobuf::Message& object);

// All kinds, lists excluded, in a fixed order.
std::vector<TypeMeta> KnownKinds();

}  // namespace holdfast::agent::kube
