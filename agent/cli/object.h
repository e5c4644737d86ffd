// SPDX-License-Identifier: Apache-2.0
// A Kubernetes object of any kind, and what a person named among several. Pure.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/cli/resource.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/meta/v1/meta.pb.h"

namespace holdfast::agent::cli {

struct Object {
  Resource resource = Resource::kPods;
  std::shared_ptr<const google::protobuf::Message> message;
  const k8s::io::apimachinery::pkg::apis::meta::v1::ObjectMeta* meta = nullptr;  // of the message

  // The message's type follows from the resource.
  template <class Type>
  const Type& As() const {
    return static_cast<const Type&>(*message);
  }
};

template <class Type>
Object MakeObject(Resource resource, Type message) {
  auto owned = std::make_shared<const Type>(std::move(message));
  const auto* meta = &owned->metadata();
  return {resource, std::move(owned), meta};
}

// How an object's name answers to what a person wrote. Pods of manifests carry their node's name;
// endpoints answer to their Service's.
enum class Fit : uint8_t { kNone, kBeginning, kWithoutNode, kWhole };
Fit NameFit(const Object& object, const PodName& name);
Fit NameFit(const k8s::io::api::core::v1::Pod& pod, const PodName& name);

// Those that fit best; several where it is a beginning, or endpoints.
std::vector<Object> BestFits(const std::vector<Object>& objects, const PodName& name);

// As BestFits; only a pod may be named by its beginning, and only one may have it. kNotFound: `pods
// "x" not found`; kInvalidArgument lists the candidates.
Result<std::vector<Object>> PickObjects(const std::vector<Object>& objects, Resource resource,
                                        const PodName& name);

// `services "x" not found`
Error ObjectNotFound(Resource resource, const std::string& name);

}  // namespace holdfast::agent::cli
